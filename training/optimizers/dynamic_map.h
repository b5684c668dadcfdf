// The 8-bit codes of moments: the dynamic map of bitsandbytes (Dettmers et al., "8-bit optimizers
// via block-wise quantization", arXiv 2110.02861). Codes stand for numbers from -1 to 1, times the
// largest magnitude of their block. There are seven decades. Decade i ends at 10^(i - 6). It has
// 2^i numbers of each sign, or 2^(i + 1) without a sign: the middles of equal parts of its upper
// nine tenths. 0 and 1 are numbers as well. Codes have the order of their numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace packtrain {

inline constexpr int kCodes = 256;
inline constexpr int kDecades = 7;
// Elements of a block, which have one largest magnitude.
inline constexpr std::int64_t kMomentBlock = 256;

using DynamicMap = std::array<float, kCodes>;

constexpr double decade_end(int decade) {
  double end = 1;
  for (int i = decade; i < kDecades - 1; ++i) end /= 10;
  return end;
}

constexpr int items_of_decade(int decade, bool has_sign) {
  return has_sign ? 1 << decade : 2 << decade;
}

constexpr double decade_item(int decade, int item, bool has_sign) {
  return decade_end(decade) * (0.1 + 0.9 * (item + 0.5) / items_of_decade(decade, has_sign));
}

// The code of 0.
constexpr int zero_code(bool has_sign) {
  return has_sign ? 127 : 0;
}

// The distance of an item's code from that of 0.
constexpr int code_distance(int decade, int item, bool has_sign) {
  return items_of_decade(decade, has_sign) + item - (has_sign ? 0 : 1);
}

// The numbers of all codes.
constexpr DynamicMap dynamic_map(bool has_sign) {
  DynamicMap map{};
  map[kCodes - 1] = 1;
  const auto zero = static_cast<std::size_t>(zero_code(has_sign));
  for (int decade = 0; decade < kDecades; ++decade) {
    for (int item = 0; item < items_of_decade(decade, has_sign); ++item) {
      const auto value = static_cast<float>(decade_item(decade, item, has_sign));
      const auto distance = static_cast<std::size_t>(code_distance(decade, item, has_sign));
      map[zero + distance] = value;
      if (has_sign) map[zero - distance] = -value;
    }
  }
  return map;
}

// Finds the code of a magnitude by its leading bits. A cell has the float32 magnitudes of one
// exponent with the same 7 leading bits of the mantissa. So narrow a cell has at most one middle
// between two numbers. Its entry plus the 16 bits that follow has, from bit 16 on, the distance of
// the nearest number's code from that of 0.
struct CodeTable {
  static constexpr int kCellsOfExponent = 128;
  static constexpr int kLeastExponent = -23;  // less is nearest to 0
  static constexpr std::uint32_t kFirstCell = (127 + kLeastExponent) * kCellsOfExponent;
  static constexpr std::uint32_t kCells = -kLeastExponent * kCellsOfExponent + 1;  // the last: 1

  std::uint32_t cells[kCells + 1] = {};  // one more for all other magnitudes
};

constexpr CodeTable code_table(bool has_sign) {
  constexpr int kParts = 1 << 16;  // of a cell
  const DynamicMap map = dynamic_map(has_sign);
  const auto number = [&](int distance) {
    const int code = zero_code(has_sign) + distance;
    return static_cast<double>(map[static_cast<std::size_t>(code)]);
  };
  const int last = kCodes - 1 - zero_code(has_sign);
  CodeTable table;
  double unit = 1.0 / (1 << -CodeTable::kLeastExponent);  // 2^exponent
  int distance = 0;
  for (std::uint32_t cell = 0; cell < CodeTable::kCells; ++cell) {
    const auto place = static_cast<int>(cell % CodeTable::kCellsOfExponent);
    if (place == 0 && cell > 0) unit *= 2;
    const double size = unit / CodeTable::kCellsOfExponent;
    // Parts of the cell that are below the middle of two numbers.
    const auto parts = [&] {
      return distance == last
                 ? kParts
                 : ((number(distance) + number(distance + 1)) / 2 - unit - place * size) / size *
                       kParts;
    };
    while (parts() <= 0) ++distance;
    const auto whole = static_cast<int>(parts() < kParts ? parts() : kParts);
    const int below = whole < parts() && whole < kParts ? whole + 1 : whole;
    table.cells[cell] = static_cast<std::uint32_t>(distance * kParts + kParts - below);
  }
  return table;
}

// The code of the number nearest to x, |x| <= 1, given by its bits. Without a sign x >= 0, and
// x > 0 has the code of the smallest positive number at least. A second moment of 0 would divide a
// first moment by epsilon alone. NaN has the code of 0.
template <bool HasSign>
constexpr std::uint8_t code_of_bits(const CodeTable& table, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Wraps around below the first cell.
  const std::uint32_t cell = (magnitude >> 16U) - CodeTable::kFirstCell;
  const std::uint32_t entry = table.cells[cell < CodeTable::kCells ? cell : CodeTable::kCells];
  const auto distance = static_cast<int>((entry + (magnitude & 0xFFFFU)) >> 16U);
  if constexpr (HasSign) {
    const int code = zero_code(true) + (magnitude == bits ? distance : -distance);
    return static_cast<std::uint8_t>(code < 0 ? 0 : code);  // -1 is no number
  } else {
    constexpr std::uint32_t kInfinity = 0x7F800000U;
    const bool is_positive = magnitude - 1 < kInfinity;  // not 0, not NaN
    return static_cast<std::uint8_t>(distance > 0 ? distance : is_positive ? 1 : 0);
  }
}

}  // namespace packtrain
