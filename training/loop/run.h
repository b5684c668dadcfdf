// Entry point of training: takes a checked configuration and a world of ranks, trains a model.
#pragma once

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// Trains as the configuration says. Collective. Returns when the run is done. Throws
// Error(kStopped) after a signal asked it to save and stop, and Errors of every other category.
void run_training(const Config& config, World& world);

// kConfigured: model.path (a Hugging Face folder or a checkpoint), or the random weights of
// model.config. kOfRun: the newest checkpoint of run.output; without one, as kConfigured.
enum class EvaluatedModel { kOfRun, kConfigured };

// Evaluates data.validation. Collective. Every rank gets the same record. `without_adapter`: of the
// model under the adapter.
EvaluationRecord run_evaluation(const Config& config, EvaluatedModel which, World& world,
                                bool without_adapter = false);

}  // namespace packtrain
