// The lines of metrics.jsonl: one JSON object each, without the newline. A number that is not
// finite is written as null, which is what JSON has for it.
#pragma once

#include <string>

#include "framework/metrics/metrics.h"

namespace packtrain {

// Keys: those of step_fields(), in their order; then, where the record has them, `loss_by_source`,
// an object of losses by source, and `auxiliary_loss`, `expert_load_max`, `expert_load_min` and
// `expert_tokens`, a list with a number for each expert.
std::string step_json_line(const StepRecord& record);

// Keys: `step` and `validation_*` (`validation_loss_by_source` as above), none of which a step line
// has, so that summing a column over the file never mixes training with evaluation. Where sets have
// names: `validation_set`, that of the others' numbers, and `validation_sets`, an object of `loss`,
// `perplexity`, `num_examples`, `num_tokens`, `num_loss_tokens` and `loss_by_source` by name.
std::string evaluation_json_line(const EvaluationRecord& record);

}  // namespace packtrain
