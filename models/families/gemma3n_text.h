// Gemma 3n (the text models of E2B and E4B). It differs from Gemma 3 in this:
// - The rows between layers have altup_num_inputs copies of the hidden state, of which a layer
//   computes on one (ops/altup). A low-rank branch is next to attention (laurel_rank).
// - Norms scale by w, not 1 + w, and values have a norm without a weight. Scores are not scaled.
// - A cutoff sets most gates of the MLPs of some layers to 0 (activation_sparsity_pattern,
//   ops/gate_cutoff). Layers may have MLPs of other widths.
// - The last num_kv_shared_layers layers attend to the keys and values of the last layer of their
//   kind before them.
// - Each layer reads inputs of its own (hidden_size_per_layer_input, decoder/layer_inputs.h). Their
//   embedding may have fewer rows than that of tokens; larger ids have the row of id 0.
// The towers of sound and pictures are not trained.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gemma3n_text_family();

}  // namespace packtrain
