// The checks, one file each. None is collective: they compare earlier measurements, or measure on
// the single-rank model.
#pragma once

#include "framework/config/config.h"
#include "training/verification/measure.h"
#include "training/verification/report.h"
#include "training/verification/verified_step.h"

namespace packtrain {

// Largest errors that rounding explains, by dtype.
struct Tolerances {
  double token_loss;     // |difference| / max(1 nat, |loss|)
  double loss;           // |difference| / |loss| of the step
  double gradient;       // norm of the difference / norm of the parameter's gradient
  double attention_sum;  // of a token's attention weights, from 1
};

Tolerances tolerances_of(const PrecisionSection& precision);

// Compares the planned step with its examples one by one, both on the single-rank model. A group is
// one of them: its examples whole, without shared rows. Compares which rows are supervised, their
// labels, weights and losses, the step's loss and every gradient.
CheckResult check_packed(const VerifiedModel& subject, const VerifiedStep& step,
                         const Measured& packed, const Measured& one_by_one);

// Detects contamination. In this rank's micro-batches it replaces each example's tokens in turn,
// before collation. The losses of all other examples must stay bit-equal. Tokens that a group
// shares are replaced apart: they must move all of its examples and no other. If rows also meet in
// matrix products of experts, or have one scale of 8-bit floats, losses may change by rounding, at
// most by Tolerances::token_loss.
CheckResult check_isolation(const VerifiedModel& subject, const VerifiedStep& step,
                            ShardedModel& single_rank, const Device& device);

// Compares this rank's batches with the plan's pieces: tokens, sequence boundaries and position
// IDs, from which the same boundaries must follow.
CheckResult check_boundaries(const VerifiedModel& subject, const VerifiedStep& step);

// Checks the attention weights of two examples that the run's collator put into one batch, or of
// two groups with shared rows. They must be zero across examples and for later tokens, positive for
// earlier and shared tokens, and have sum 1.
CheckResult check_attention(const VerifiedModel& subject, const VerifiedStep& step, Device& device);

// Compares the run's own sharded step (`mine`, its loss summed over ranks) with the single-rank
// model's.
CheckResult check_ranks(const VerifiedModel& subject, const Measured& mine,
                        const Measured& single_rank, int num_ranks);

}  // namespace packtrain
