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

// What nearest_code() reads of a map. The first number of a decade is nearer than the last of the
// decade before it from `begin` on.
struct DecadeTable {
  float begin[kDecades + 1] = {};  // the last one: of 1
  float scale[kDecades] = {};      // items in a unit
  float offset[kDecades] = {};     // items below 0
  bool has_sign = false;
};

constexpr DecadeTable decade_table(bool has_sign) {
  DecadeTable table;
  table.has_sign = has_sign;
  double before = 0;
  for (int decade = 0; decade < kDecades; ++decade) {
    const int items = items_of_decade(decade, has_sign);
    const double first = decade_item(decade, 0, has_sign);
    table.begin[decade] = static_cast<float>((before + first) / 2);
    table.scale[decade] = static_cast<float>(items / (0.9 * decade_end(decade)));
    table.offset[decade] = static_cast<float>(items * 0.1 / 0.9);
    before = decade_item(decade, items - 1, has_sign);
  }
  table.begin[kDecades] = static_cast<float>((before + 1) / 2);
  return table;
}

// The code of the number nearest to x, |x| <= 1. Without a sign x >= 0, and x > 0 has the code of
// the smallest positive number at least. A second moment of 0 would divide a first moment by
// epsilon alone. NaN has the code of 0.
constexpr std::uint8_t nearest_code(const DecadeTable& table, float x) {
  const bool is_negative = x < 0;
  const float magnitude = is_negative ? -x : x;
  const int zero = zero_code(table.has_sign);
  if (!(magnitude >= table.begin[0])) {
    const bool is_smallest = !table.has_sign && magnitude > 0;
    return static_cast<std::uint8_t>(zero + (is_smallest ? 1 : 0));
  }
  if (!is_negative && magnitude >= table.begin[kDecades]) return kCodes - 1;
  int decade = 0;
  for (int d = 1; d < kDecades; ++d) decade += magnitude >= table.begin[d] ? 1 : 0;
  const int items = items_of_decade(decade, table.has_sign);
  int item = static_cast<int>(magnitude * table.scale[decade] - table.offset[decade]);
  item = item < 0 ? 0 : item >= items ? items - 1 : item;
  const int distance = code_distance(decade, item, table.has_sign);
  return static_cast<std::uint8_t>(is_negative ? zero - distance : zero + distance);
}

}  // namespace packtrain
