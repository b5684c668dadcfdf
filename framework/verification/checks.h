// The checks, one file each. None is collective: they compare what was measured before, or measure
// on the lone model.
#pragma once

#include "framework/config/config.h"
#include "framework/verification/measure.h"
#include "framework/verification/report.h"
#include "framework/verification/verified_step.h"

namespace packtrain {

// Largest errors that rounding explains, by dtype.
struct Tolerances {
  double token_loss;     // |difference| / max(1 nat, |loss|)
  double loss;           // |difference| / |loss| of the step
  double gradient;       // norm of the difference / norm of the parameter's gradient
  double attention_sum;  // of a token's attention weights, from 1
};

Tolerances tolerances_of(const PrecisionSection& precision);

// The step as planned against its examples one by one, both on the lone model: which rows are
// supervised, their labels, weights and losses, the step's loss and every parameter's gradient.
CheckResult check_packed(const VerifiedModel& subject, const VerifiedStep& step,
                         const Measured& packed, const Measured& one_by_one);

// The contamination detector: in this rank's micro-batches each example's tokens are replaced in
// turn, before collation; the losses of all other examples must stay bit-equal. That holds for
// models in which rows meet nowhere but in attention; where they also meet in experts' matrix
// products, losses may move by rounding, Tolerances::token_loss at most.
CheckResult check_isolation(const VerifiedModel& subject, const VerifiedStep& step,
                            ShardedModel& lone, const Device& device);

// This rank's batches against the plan's pieces: their tokens, the sequences' boundaries, and
// position IDs, from which the same boundaries must follow.
CheckResult check_boundaries(const VerifiedModel& subject, const VerifiedStep& step);

// The attention weights themselves, of two examples that the run's collator put into one batch:
// exactly zero across examples and ahead of a token, positive behind it, and with sum 1.
CheckResult check_attention(const VerifiedModel& subject, const VerifiedStep& step, Device& device);

// The run's own sharded step (`mine`, its loss summed over ranks) against the lone model's.
CheckResult check_ranks(const VerifiedModel& subject, const Measured& mine, const Measured& lone,
                        int num_ranks);

}  // namespace packtrain
