// The settings of rotary positions, for files that do not include libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace packtrain {

// How rotary frequencies are scaled for positions beyond those of pretraining.
struct RotaryScaling {
  enum class Kind { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope, kProportional };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  std::int64_t original_max_positions = 8192;  // dynamic, llama3, yarn, longrope
  double low_frequency_factor = 1.0;           // llama3
  double high_frequency_factor = 4.0;          // llama3
  double beta_fast = 32.0;                     // yarn
  double beta_slow = 1.0;                      // yarn
  double proportion = 1.0;                     // proportional: of the frequencies that are not 0
  bool truncate = true;               // yarn: rounds the bounds of the ramp to whole dimensions
  double attention_factor = 1.0;      // yarn, longrope: factor of cosine and sine
  std::vector<double> short_factors;  // longrope, [rotary_dim / 2]: for examples of at most
  std::vector<double> long_factors;   // original_max_positions tokens, and for longer ones

  // True where frequencies differ between sequences by their length. Sequences of several lengths
  // then cannot share rows.
  bool depends_on_length() const { return kind == Kind::kDynamic || kind == Kind::kLongRope; }

  bool operator==(const RotaryScaling&) const = default;
};

struct RotaryConfig {
  double base = 10000.0;
  RotaryScaling scaling = {};
  bool rotates = true;  // false: all frequencies are 0

  bool operator==(const RotaryConfig&) const = default;
};

}  // namespace packtrain
