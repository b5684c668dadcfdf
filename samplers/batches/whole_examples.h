// Steps of whole examples: consecutive runs of the order, by number or by tokens.
#pragma once

#include <memory>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// By number: global_batch_size examples a step; the epoch's last step has the rest. By tokens: as
// many examples as fit into global_batch_tokens, or one split example that alone is longer.
std::unique_ptr<EpochBatches> make_whole_example_batches(BatchInputs inputs);

// The number of steps of every epoch. Nothing when it depends on the order.
std::optional<std::int64_t> whole_example_steps(const Selection& selection,
                                                const PlanOptions& options);

}  // namespace packtrain
