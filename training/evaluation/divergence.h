// The divergence of a policy from its reference over a store, which the loss of KTO needs.
#pragma once

#include <span>

#include "collators/packed_batch.h"
#include "framework/device/device.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/evaluation/collective_evaluation.h"
#include "training/steps/reference_pass.h"

namespace packtrain {

// The mean over examples of log p(answer) - log p_reference(answer). `mismatched`: this
// rank's micro-batches (mismatched_answers.h), of `num_examples` of all ranks. Both models have one
// compute stream. Collective: every rank has the same number of micro-batches and gets the same
// value. Throws as CollectiveEvaluation::agree().
double mean_divergence(const ReferenceModel& policy, const ReferenceModel& reference,
                       std::span<const PackedBatch> mismatched, std::int64_t num_examples,
                       const Device& device, World& world, CollectiveEvaluation& joint);

}  // namespace packtrain
