// The kinds of activation, for files that do not include libtorch.
#pragma once

namespace packtrain {

enum class ActivationKind { kSilu, kGeluTanh, kGeluErf, kClampedSwish, kSquaredRelu };

// Constants of kClampedSwish: the factor inside the logistic function, and the limit of gate and
// up.
constexpr float kSwishScale = 1.702F;
constexpr float kSwishLimit = 7.0F;

struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = false;

  // Not defaulted, because kernels are compiled as C++17.
  bool operator==(const Activation& other) const {
    return kind == other.kind && gated == other.gated;
  }
};

}  // namespace packtrain
