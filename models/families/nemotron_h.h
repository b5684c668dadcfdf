// Nemotron-H and Nemotron 3 (NVIDIA). A layer has one branch: Mamba-2's state space model,
// attention without rotary positions, an MLP without a gate, or experts without a gate. The experts
// have the router of DeepSeek-V3 and a shared one. The norm of Mamba-2 is of groups. As in
// transformers, steps have the lower limit time_step_min and ignore time_step_limit. Files have
// the prefix backbone.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family nemotron_h_family();

}  // namespace packtrain
