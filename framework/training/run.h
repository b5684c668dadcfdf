// The way in to training: a checked configuration and a world of ranks in, a trained model out.
#pragma once

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/world.h"

namespace packtrain {

// Trains as the configuration says, on all ranks of `world` (collective). Returns when done; throws
// Error(kStopped) after a signal asked it to save and stop, and Errors of every other category.
void run_training(const Config& config, World& world);

// kConfigured: model.path (a Hugging Face folder or a checkpoint), or the random weights of
// model.config. kOfRun: the newest checkpoint of run.output, where there is none as kConfigured.
enum class EvaluatedModel { kOfRun, kConfigured };

// Loss of data.validation. Collective; the same on every rank.
EvaluationRecord run_evaluation(const Config& config, EvaluatedModel which, World& world);

}  // namespace packtrain
