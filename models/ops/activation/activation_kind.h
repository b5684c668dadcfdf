// Which nonlinearity: apart from activation.h for the sake of files without libtorch.
#pragma once

namespace packtrain {

enum class ActivationKind { kSilu, kGeluTanh, kGeluErf };

struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = false;
};

}  // namespace packtrain
