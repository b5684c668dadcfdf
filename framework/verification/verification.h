// Is this configuration right on this machine? Proved before it costs anything: the first steps of
// the run, with the run's own plan, collator, model, kernels, dtypes and ranks, held against the
// same examples trained one by one on one device. The way in to framework/verification.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/config/config.h"
#include "framework/verification/report.h"
#include "framework/verification/verified_step.h"
#include "parallel/world.h"

namespace packtrain {

struct VerificationOptions {
  // Examples of a step, at most the run's own; where steps are counted in tokens, rows of
  // data.max_length for as many examples of mean length, with fixed_length one a rank at least.
  // Empty: 16, or 2 a rank if that is more.
  std::optional<std::int64_t> num_examples;
  std::int64_t num_steps =
      1;            // from the run's first on, at most all; weights stay the initial ones
  Collate collate;  // empty: that of batch.strategy. Tests give damaged ones
};

// Runs every check and returns what they found, failures too: the same on every rank. Collective.
// Every rank also holds the whole model for a while. Throws Error(kConfig) when that does not fit
// its device, and what opening data, model and devices throws.
VerificationReport run_verification(const Config& config, World& world,
                                    const VerificationOptions& options = {});

}  // namespace packtrain
