// How a router turns its logits into the choice of experts and their weights (routing.h). For files
// that do not include libtorch.
#pragma once

#include <cstdint>

namespace packtrain {

enum class RouterKind : std::uint8_t { kSoftmax, kSigmoid, kSparseMixer };

}  // namespace packtrain
