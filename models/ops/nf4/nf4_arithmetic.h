// The tables and the rounding of NF4, for CPU and GPU. Both compile it without contracting products
// and sums to fused ones, so that they have equal bits.
#pragma once

#include <cstdint>

namespace packtrain {

struct Nf4Tables {
  float quantiles[16] = {};       // of a code
  float bounds[15] = {};          // between neighbouring quantiles
  float absmax_map[256] = {};     // of an absmax code, ascending
  float absmax_bounds[255] = {};  // between its neighbours
};

namespace nf4_detail {

// bitsandbytes' "dynamic map": 7 ranges, each a power of ten above the one before and with twice
// its values. Both signs, 0, and 1 alone.
constexpr void fill_absmax_map(float (&map)[256]) {
  constexpr float kLow = 0.1F;
  constexpr double kPowers[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  int next = 128;
  for (int range = 0; range < 7; ++range) {
    const int count = 1 << range;
    const float step = (1.0F - kLow) / static_cast<float>(count);
    // Of torch.linspace, which counts from the nearer end with a fused product.
    const auto boundary = [&](int i) {
      const int from_end = count - i;
      return i < (count + 1) / 2
                 ? static_cast<float>(double{kLow} + double{step} * static_cast<double>(i))
                 : static_cast<float>(1.0 - double{step} * static_cast<double>(from_end));
    };
    for (int i = 0; i < count; ++i) {
      const float middle = (boundary(i) + boundary(i + 1)) / 2.0F;
      map[next] = static_cast<float>(kPowers[range]) * middle;
      map[254 - next] = -map[next];
      ++next;
    }
  }
  map[127] = 0.0F;
  map[255] = 1.0F;
}

}  // namespace nf4_detail

constexpr Nf4Tables make_nf4_tables() {
  Nf4Tables tables = {{-1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F,
                       -0.28444138169288635F, -0.18477343022823334F, -0.09105003625154495F, 0.0F,
                       0.07958029955625534F, 0.16093020141124725F, 0.24611230194568634F,
                       0.33791524171829224F, 0.44070982933044434F, 0.5626170039176941F,
                       0.7229568362236023F, 1.0F}};
  nf4_detail::fill_absmax_map(tables.absmax_map);
  for (int i = 0; i < 15; ++i) {
    tables.bounds[i] = (tables.quantiles[i] + tables.quantiles[i + 1]) / 2.0F;
  }
  for (int i = 0; i < 255; ++i) {
    tables.absmax_bounds[i] = 0.5F * (tables.absmax_map[i] + tables.absmax_map[i + 1]);
  }
  return tables;
}

constexpr float clamp_to_one(float x) {
  if (x < -1.0F) return -1.0F;
  return x > 1.0F ? 1.0F : x;
}

// The factor that scales a block to [-1, 1]. A block of zeros stays zeros.
constexpr float nf4_scale(float absmax) {
  constexpr float kSmallest = 1e-38F;
  return 1.0F / (absmax < kSmallest ? kSmallest : absmax);
}

// Of a value times nf4_scale(). A value between two quantiles gets the lower one.
constexpr std::uint8_t nf4_code(const Nf4Tables& tables, float scaled) {
  const float x = clamp_to_one(scaled);
  int code = 0;
  for (int i = 0; i < 15; ++i) code += x > tables.bounds[i] ? 1 : 0;
  return static_cast<std::uint8_t>(code);
}

// Of absmax - offset and the inverse of the nested absmax. bitsandbytes first rounds to one of 2^16
// values.
constexpr std::uint8_t absmax_code(const Nf4Tables& tables, float difference, float inverse) {
  const float x = clamp_to_one(difference * inverse);
  const auto place = static_cast<std::uint16_t>((x + 1.0F) * 0.5F * 65535.0F + 0.5F);
  const float rounded = -1.0F + (2.0F * static_cast<float>(place)) / 65535.0F;
  int code = 0;
  for (int half = 128; half > 0; half /= 2) {
    if (tables.absmax_bounds[code + half - 1] < rounded) code += half;
  }
  return static_cast<std::uint8_t>(code);
}

constexpr float decoded_absmax(const Nf4Tables& tables, std::uint8_t code, float nested_absmax,
                               float offset) {
  return tables.absmax_map[code] * nested_absmax + offset;
}

}  // namespace packtrain
