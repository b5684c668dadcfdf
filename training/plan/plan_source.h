// Planner options of a configuration, for training and for `packtrain plan`.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "models/layers/decoder_config.h"
#include "samplers/options.h"
#include "training/plan/plan_summary.h"

namespace packtrain {

// The cost of an example is the model's training FLOPs for it. With fixed_length and multipack,
// batch.global_batch_size counts rows of data.max_length tokens. Trainers that cut or pack examples
// before batching count in this way. A step then has that many tokens. With file it opens the plan
// file and throws the errors of PlanFile::open().
// `max_tokens_per_micro_batch`: the configured budget or the one found (token_budget.h).
// `has_groups`: of the store. Without it they are those of a store that objective.kind asks for,
// plain for next_token.
PlanOptions plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks,
                         std::int64_t max_tokens_per_micro_batch, bool has_groups);
PlanOptions plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks,
                         std::int64_t max_tokens_per_micro_batch);

// How a PlanSummary counts these plans: rows as the strategy's collator makes them.
PlanSummaryOptions plan_summary_options(const PlanOptions& plan, const DecoderConfig& decoder);

}  // namespace packtrain
