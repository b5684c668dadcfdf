// Which nonlinearity: apart from activation.h for the sake of files without libtorch.
#pragma once

namespace packtrain {

enum class ActivationKind { kSilu, kGeluTanh, kGeluErf, kClampedSwish };

// kClampedSwish: the logistic function's scale, and what gate and up are clamped to.
constexpr float kSwishScale = 1.702F;
constexpr float kSwishLimit = 7.0F;

struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = false;

  // Written out: kernels are C++17.
  bool operator==(const Activation& other) const {
    return kind == other.kind && gated == other.gated;
  }
};

}  // namespace packtrain
