// The way in to training: a checked configuration and a world of ranks in, a trained model out.
#pragma once

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/world.h"

namespace packtrain {

// Trains as the configuration says, on all ranks of `world` (collective). Returns when done; throws
// Error(kStopped) after a signal asked it to save and stop, and Errors of every other category.
void run_training(const Config& config, World& world);

// Loss of data.validation under model.path (a Hugging Face folder or a checkpoint) or, without it,
// the newest checkpoint of run.output. Collective; the same on every rank.
EvaluationRecord run_evaluation(const Config& config, World& world);

}  // namespace packtrain
