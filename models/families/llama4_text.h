// The text model of Llama 4 (model_type "llama4_text"; transformers 5.17, modeling_llama4.py):
// Llama with chunked attention (models/ops/attention/chunks.h) in the layers with rotary positions.
// Every fourth layer has neither. Its queries are scaled by their position. In layers with rotary
// positions, which turn neighbours, queries and keys have a norm without a weight. Layers have
// experts and a shared expert, or an MLP of another width. A router chooses by its logits; their
// sigmoids multiply the inputs of experts. Experts are stacked matrices [inputs, outputs].
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family llama4_text_family();

}  // namespace packtrain
