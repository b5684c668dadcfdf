// The arithmetic of 8-bit floats, for CPU and GPU, on the bits of float32 numbers. Formats are
// those of "FP8 Formats for Deep Learning" (arXiv 2209.05433), as OCP's specification has them.
//
// A scale is a power of two. Multiplying by it is exact, so that it changes no rounding of numbers
// in the format's normal range. Two batches with other largest values then give the same rounded
// numbers, except below that range. The cost is at most one of 18 (e4m3) or 32 (e5m2) octaves.
#pragma once

#include <cstdint>

namespace packtrain {

enum class Fp8Format : std::uint8_t {
  kE4M3,  // 4 bits of exponent, 3 of mantissa, no infinity
  kE5M2,  // 5 bits of exponent, 2 of mantissa
};

namespace fp8 {

constexpr std::uint32_t kFloatMantissaBits = 23;
constexpr std::uint32_t kFloatInfinity = 0x7F800000U;
constexpr std::uint32_t kFloatNan = 0x7FC00000U;
constexpr std::uint8_t kNan = 0x7FU;  // in both formats

struct Layout {
  std::uint32_t mantissa_bits;
  int bias;          // of the exponent
  int max_exponent;  // the largest value is 1.75 x 2^max_exponent
  std::uint8_t max_code;
};

constexpr Layout layout_of(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? Layout{3, 7, 8, 0x7E} : Layout{2, 15, 15, 0x7B};
}

// The scale of a tensor: codes stand for code * factor, and x * multiplier is rounded.
struct ScaleBits {
  std::uint32_t multiplier;
  std::uint32_t factor;
};

// The largest power of two whose product with the largest |x| of a tensor is a number of the
// format. A tensor of zeros has scale 1. A tensor with a number that is not finite has NaN, so that
// no product of it is finite.
constexpr ScaleBits scale_of(std::uint32_t amax, Fp8Format format) {
  if (amax >= kFloatInfinity) return {kFloatNan, kFloatNan};
  constexpr std::uint32_t kOne = 127U << kFloatMantissaBits;
  if (amax == 0) return {kOne, kOne};
  constexpr std::uint32_t kThreeQuarters = 3U << (kFloatMantissaBits - 2);
  constexpr int kMaxPower = 126;  // so that the factor is no subnormal number
  const int exponent = static_cast<int>(amax >> kFloatMantissaBits) - 127;
  const bool is_above = (amax & ((1U << kFloatMantissaBits) - 1)) > kThreeQuarters;
  int power = layout_of(format).max_exponent - exponent - (is_above ? 1 : 0);
  if (power > kMaxPower) power = kMaxPower;
  return {static_cast<std::uint32_t>(127 + power) << kFloatMantissaBits,
          static_cast<std::uint32_t>(127 - power) << kFloatMantissaBits};
}

// Rounds to nearest, ties to even. Larger numbers, and infinity, become the largest one. GPUs have
// an instruction for it (cvt.rn.satfinite); this is for the CPU.
constexpr std::uint8_t encode(std::uint32_t x, Fp8Format format) {
  const Layout layout = layout_of(format);
  const std::uint32_t magnitude = x & 0x7FFFFFFFU;
  if (magnitude > kFloatInfinity) return kNan;
  const auto sign = static_cast<std::uint8_t>(x >> 24 & 0x80U);
  const int exponent = static_cast<int>(magnitude >> kFloatMantissaBits) - 127;
  const int below = 1 - layout.bias - exponent;  // octaves below the normal range
  std::uint32_t kept =
      magnitude - (static_cast<std::uint32_t>(127 - layout.bias) << kFloatMantissaBits);
  std::uint32_t dropped_bits = kFloatMantissaBits - layout.mantissa_bits;
  if (below > 0) {
    dropped_bits += static_cast<std::uint32_t>(below);
    if (dropped_bits > kFloatMantissaBits + 1) return sign;
    kept = (magnitude & ((1U << kFloatMantissaBits) - 1)) | 1U << kFloatMantissaBits;
  }
  const std::uint32_t half = 1U << (dropped_bits - 1);
  const std::uint32_t is_odd = kept >> dropped_bits & 1U;
  const std::uint32_t code = (kept + half - 1 + is_odd) >> dropped_bits;
  return static_cast<std::uint8_t>(sign | (code > layout.max_code ? layout.max_code : code));
}

}  // namespace fp8
}  // namespace packtrain
