// Falcon-H1 (TII): Llama's decoder whose layers have attention and Mamba-2's state space model on
// the same rows. Constant factors multiply embeddings, parts of both mixers, the MLP and logits.
// The norm of Mamba-2 is an option.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family falcon_h1_family();

}  // namespace packtrain
