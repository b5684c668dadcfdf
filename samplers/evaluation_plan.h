// The plan of an evaluation: every example once, without optimizer steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/example_counts.h"
#include "framework/data/token_store.h"
#include "samplers/loss_counter.h"
#include "samplers/plan.h"

namespace packtrain {

// Assigns every example that has tokens to micro-batches of at most `max_tokens_per_micro_batch`.
// Longest examples come first, so that a micro-batch holds similar lengths. Micro-batches go to the
// ranks in turn; at the end some ranks may have an empty one. The plan's counts are those of the
// whole store. lengths[e] and num_loss_tokens[e] describe example e. O(examples log examples).
// Throws Error(kConfig) when an example is longer than the budget. Throws Error(kData) when no
// example has a label, or for 2^32 examples or more.
// `counter`, when given, supplies the weights of labels (LossCounter::label_weight). `lowered`,
// when above 0, replaces the budget for micro-batches of several examples, because larger ones
// exceeded the memory. A longer example has a micro-batch of its own.
StepPlan plan_evaluation(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         const LossCounter* counter = nullptr, std::int64_t lowered = 0);

// The same for a store. Of one with groups it assigns whole groups; those with an example without
// tokens or without a label are left out. Rows are counted as in Planner, and sums of weights are
// those of StepCounts. Throws Error(kConfig) also for a group of more rows than the budget.
StepPlan plan_evaluation(const TokenStore& store, bool share_prefixes,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         std::int64_t lowered = 0);

// Assigns runs of pieces, each of which stays in one micro-batch, as plan_evaluation() does
// examples.
Assignment assign_runs(std::vector<MicroBatch> runs, std::int64_t max_tokens_per_micro_batch,
                       int num_ranks);

}  // namespace packtrain
