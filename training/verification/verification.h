// Verifies a configuration on this machine before training. Runs the first steps of the run with
// the run's own plan, collator, model, kernels, dtypes and ranks. Compares them with the same
// examples trained one by one on one device. Entry point of training/verification.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "training/verification/precision_report.h"
#include "training/verification/report.h"
#include "training/verification/verified_step.h"

namespace packtrain {

struct VerificationOptions {
  // Examples of a step, at most the run's own. When steps are counted in tokens, it is converted to
  // rows of data.max_length for as many examples of mean length. With fixed_length that is at least
  // one row a rank. Empty: 16, or 2 a rank if that is more. Steps of a plan file stay whole.
  std::optional<std::int64_t> num_examples;
  std::int64_t num_steps =
      1;            // from the run's first on, at most all; weights stay the initial ones
  Collate collate;  // empty: that of batch.strategy; tests pass damaged ones
};

// Runs every check and returns the results, failures included. They are the same on every rank.
// Collective. Every rank also holds the whole model for some time. Throws Error(kConfig) when it
// does not fit the device. Also throws the errors of opening data, model and devices.
VerificationReport run_verification(const Config& config, World& world,
                                    const VerificationOptions& options = {});

// Measures the first step in each recipe of precision (precision_report.h). Every rank does so
// alone, with the same result. Checks nothing.
PrecisionReport run_precision_report(const Config& config, World& world,
                                     const VerificationOptions& options = {});

}  // namespace packtrain
