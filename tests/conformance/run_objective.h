// An objective of groups in the folder that a line `objective FOLDER` of conformance_tool names. It
// has `model/`, `objective.yaml` (a configuration), and `batch.safetensors` with input_ids int32
// [T], lengths int32 [E], loss_index int32 [N], loss_weight float32 [N], num_rows, roles int32 [E],
// and group_weights float32 [E]. It may have margins, reference, kl, and columns of tokens, which
// have their own names.
//
// Writes `gradients/`, under Hugging Face names, and `objective.safetensors`: loss [], and the
// statistics of a log [] by their names. Computes in float32 on the CPU.
#pragma once

#include <string>

namespace packtrain {

void run_objective(const std::string& folder);

}  // namespace packtrain
