// GLM-4.7-Flash (model_type "glm4_moe_lite"). It has the experts of GLM-4.5 (sigmoid_experts.h) and
// latent attention (latent_layout.h). mlp_layer_types says which layers have experts. Without it
// all but the first have them. Layers that predict further tokens are left out, as by transformers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family glm4_moe_lite_family();

}  // namespace packtrain
