// An objective of groups in the folder that a line `objective FOLDER` of conformance_tool names. It
// has `model/`, and a configuration `objective.yaml`. Its `batch.safetensors` has these tensors:
//    int32     input_ids [T], lengths [E], loss_index [N], num_rows [E], roles [E]
//    float32   loss_weight [N], group_weights [E]
//    optional  margins [E], reference [N], kl [], columns of tokens by their names [N]
//
// Writes `gradients/`, under Hugging Face names, and `objective.safetensors`: loss [], and the
// statistics of a log [] by their names. Computes in float32 on the CPU.
#pragma once

#include <string>

namespace packtrain {

void run_objective(const std::string& folder);

}  // namespace packtrain
