// Entry point of training: takes a checked configuration and a world of ranks, trains a model.
#pragma once

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"
#include "training/loop/loaded_evaluation.h"

namespace packtrain {

// Trains as the configuration says. Collective. Returns when the run is done. Throws
// Error(kStopped) after a signal asked it to save and stop, and Errors of every other category.
void run_training(const Config& config, World& world);

// Evaluates data.validation. Collective. Every rank gets the same record.
EvaluationRecord run_evaluation(const Config& config, const EvaluationRequest& request,
                                World& world);

}  // namespace packtrain
