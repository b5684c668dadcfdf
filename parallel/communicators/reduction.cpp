#include "parallel/communicators/reduction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "framework/core/error.h"

namespace packtrain {
namespace {

struct BFloat16 {
  std::uint16_t bits;
};

template <typename T>
T widen(T value) {
  return value;
}

float widen(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

template <typename T>
void narrow(T value, T& result) {
  result = value;
}

void narrow(float value, BFloat16& result) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) {
    result.bits = static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // stays a quiet NaN
    return;
  }
  const std::uint32_t round_to_even = 0x7fffU + ((bits >> 16U) & 1U);
  result.bits = static_cast<std::uint16_t>((bits + round_to_even) >> 16U);
}

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};

template <typename Op, typename T>
void reduce(std::span<const std::byte* const> inputs, std::byte* output, std::size_t count) {
  using Accumulator = decltype(widen(T{}));
  constexpr std::size_t kTile = 1024;  // keeps the accumulators in the L1 cache
  std::array<Accumulator, kTile> tile;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t size = std::min(kTile, count - begin);
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      const T* input = reinterpret_cast<const T*>(inputs[rank]) + begin;
      if (rank == 0) {
        for (std::size_t i = 0; i < size; ++i) tile[i] = widen(input[i]);
      } else {
        for (std::size_t i = 0; i < size; ++i) tile[i] = Op::apply(tile[i], widen(input[i]));
      }
    }
    T* result = reinterpret_cast<T*>(output) + begin;
    for (std::size_t i = 0; i < size; ++i) narrow(tile[i], result[i]);
  }
}

template <typename Op>
void reduce_as(DataType type, std::span<const std::byte* const> inputs, std::byte* output,
               std::size_t count) {
  switch (type) {
    case DataType::kUInt8:
      return reduce<Op, std::uint8_t>(inputs, output, count);
    case DataType::kInt16:
      return reduce<Op, std::int16_t>(inputs, output, count);
    case DataType::kInt32:
      return reduce<Op, std::int32_t>(inputs, output, count);
    case DataType::kInt64:
      return reduce<Op, std::int64_t>(inputs, output, count);
    case DataType::kBFloat16:
      return reduce<Op, BFloat16>(inputs, output, count);
    case DataType::kFloat32:
      return reduce<Op, float>(inputs, output, count);
    case DataType::kFloat64:
      return reduce<Op, double>(inputs, output, count);
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2:
    case DataType::kFloat16:
    case DataType::kBool:
      break;
  }
  throw Error(ErrorCategory::kInternal, "CPU ranks do not reduce float16, bool and 8-bit floats");
}

}  // namespace

void reduce_in_order(std::span<const std::byte* const> inputs, std::byte* output, std::size_t count,
                     DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce_as<Sum>(type, inputs, output, count);
    case ReduceOp::kMin:
      return reduce_as<Min>(type, inputs, output, count);
    case ReduceOp::kMax:
      return reduce_as<Max>(type, inputs, output, count);
  }
}

}  // namespace packtrain
