// The lines of metrics.jsonl: one JSON object each, without the newline. A non-finite number is
// null, because JSON has no such number.
#pragma once

#include <string>

#include "framework/metrics/metrics.h"

namespace packtrain {

// Keys: those of step_fields(), in order. When the record has them, `slowest_phase` and
// `loss_by_source` follow, an object of losses by source. A model with experts adds
// `expert_load_max`, `expert_load_min`, `expert_tokens`, a list with a number for each expert, and
// `auxiliary_loss` if there is one. A step that updates a Hessian estimate adds
// `hessian_grad_norm`, `hessian_num_skipped` and `unclipped_fraction`.
std::string step_json_line(const StepRecord& record);

// Keys: `step` and `validation_*` (`validation_loss_by_source` as above). A step line has no
// `validation_*` key, so that a column never mixes training with evaluation. When sets have names,
// there are two more keys. `validation_set` is the set of the other numbers. `validation_sets` is
// an object by name of `loss`, `perplexity`, `num_examples`, `num_tokens`, `num_loss_tokens` and
// `loss_by_source`.
std::string evaluation_json_line(const EvaluationRecord& record);

// Keys: `step`, and `evaluate_command`, an object of the numbers. It follows lines of later steps.
std::string command_json_line(const CommandRecord& record);

}  // namespace packtrain
