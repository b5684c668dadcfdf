// The plan of an evaluation: every example once, no optimizer step to respect.
#pragma once

#include <cstdint>
#include <span>

#include "framework/data/example_counts.h"
#include "samplers/loss_counter.h"
#include "samplers/plan.h"

namespace packtrain {

// Lays every example that has tokens over micro-batches of at most `max_tokens_per_micro_batch`,
// longest examples first, neighbours of similar length, and deals those to the ranks in turn (at
// the end some ranks may have an empty micro-batch). The plan's counts are of the whole store.
// lengths[e], num_loss_tokens[e]: of example e. O(examples log examples).
// Throws Error(kConfig) when an example is longer than the budget, Error(kData) when no example has
// a label: there would be no loss to report; or when there are 2^32 examples or more.
// `counter`, where given, is asked what the labels weigh (LossCounter::label_weight).
// `lowered`, where above 0: what micro-batches of several examples are to have at most, because
// larger ones took too much memory; an example above it has one alone.
StepPlan plan_evaluation(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         const LossCounter* counter = nullptr, std::int64_t lowered = 0);

}  // namespace packtrain
