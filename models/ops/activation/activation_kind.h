// Which nonlinearity: apart from activation.h for the sake of files without libtorch.
#pragma once

namespace packtrain {

enum class ActivationKind { kSilu, kGeluTanh, kGeluErf };

struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = false;

  // Written out: kernels are C++17.
  bool operator==(const Activation& other) const {
    return kind == other.kind && gated == other.gated;
  }
};

}  // namespace packtrain
