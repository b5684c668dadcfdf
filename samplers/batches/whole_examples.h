// Steps of whole examples: consecutive runs of the order, by number or by tokens.
#pragma once

#include <memory>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// By number: global_batch_size examples; the epoch's last step has what is left.
// By tokens: as many examples as stay within global_batch_tokens together, or one that alone is
// longer (a split one).
std::unique_ptr<EpochBatches> make_whole_example_batches(BatchInputs inputs);

// Of every epoch alike; nothing when that depends on the order.
std::optional<std::int64_t> whole_example_steps(const Selection& selection,
                                                const PlanOptions& options);

}  // namespace packtrain
