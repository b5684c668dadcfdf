// LFM2 (Liquid AI): Llama's decoder with norms of queries and keys. Most layers have a gated short
// convolution instead of attention. The published width of the MLP is before an adjustment that the
// config describes. Tensors have names of their own.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family lfm2_family();

}  // namespace packtrain
