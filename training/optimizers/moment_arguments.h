// Arguments of the kernels of updates with one moment or none: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

// What an update does with the gradient g, the moment m and the weight w of an element (muon.h,
// lion.h).
enum class MomentRule {
  kMuonMomentum,  // m and g; leaves w
  kMuonWeights,   // w; leaves g, which is orthogonalised, and m
  kLion,          // m and w
};

struct MomentArguments : PartArguments {
  MomentRule rule = MomentRule::kLion;
  void* moment = nullptr;  // null for kMuonWeights
  DataType moment_dtype = DataType::kFloat32;

  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from the exact difference
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float learning_rate = 0;
};

// The rules for one element, the same functions on CPU and GPU.
struct MuonMomentumRule {
  static constexpr bool kHasMoment = true;
  static constexpr bool kWritesGrad = true;
  static constexpr bool kWritesWeight = false;
  static constexpr void apply(const MomentArguments& a, float /*decay*/, float clip, float& g,
                              float& /*w*/, float& m) {
    const float clipped = clip * g;
    m = a.beta1 * m + a.one_minus_beta1 * clipped;
    g = a.beta1 * m + a.one_minus_beta1 * clipped;  // Nesterov
  }
};

struct MuonWeightsRule {
  static constexpr bool kHasMoment = false;
  static constexpr bool kWritesGrad = false;
  static constexpr bool kWritesWeight = true;
  static constexpr void apply(const MomentArguments& a, float decay, float /*clip*/, float& g,
                              float& w, float& /*m*/) {
    w = w * decay - a.learning_rate * g;
  }
};

struct LionRule {
  static constexpr bool kHasMoment = true;
  static constexpr bool kWritesGrad = false;
  static constexpr bool kWritesWeight = true;
  static constexpr void apply(const MomentArguments& a, float decay, float clip, float& g, float& w,
                              float& m) {
    const float clipped = clip * g;
    const float direction = a.beta1 * m + a.one_minus_beta1 * clipped;
    const float sign = static_cast<float>(direction > 0) - static_cast<float>(direction < 0);
    w = w * decay - a.learning_rate * sign;
    m = a.beta2 * m + a.one_minus_beta2 * clipped;
  }
};

// Calls `run` with the rule of the arguments.
template <typename Run>
void with_rule(MomentRule rule, const Run& run) {
  switch (rule) {
    case MomentRule::kMuonMomentum:
      return run(MuonMomentumRule());
    case MomentRule::kMuonWeights:
      return run(MuonWeightsRule());
    case MomentRule::kLion:
      return run(LionRule());
  }
}

}  // namespace packtrain
