// A model with its weights and the validation stores, ready to be evaluated without training.
#pragma once

#include <functional>
#include <memory>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/evaluation/evaluation_sets.h"
#include "training/guards/watchdog.h"
#include "training/loop/run_reference.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"

namespace packtrain {

// kConfigured: model.path (a Hugging Face folder or a checkpoint), or the random weights of
// model.config. kOfRun: the newest checkpoint of run.output; without one, as kConfigured.
enum class EvaluatedModel { kOfRun, kConfigured };

struct EvaluationRequest {
  EvaluatedModel model = EvaluatedModel::kOfRun;
  bool without_adapter = false;  // of the model under the adapter
  bool without_groups = false;   // the loss of next tokens, also of examples in groups
};

struct LoadedEvaluation {
  LoadedEvaluation(const Config& given, World& world)
      : config(given), watchdog(given.guard, "", world) {}

  // Call it between parts of the work. Each part has the time limit of an evaluation.
  void begin_part() { watchdog.enter(RunPhase::kCheckpoint, 0); }
  // Evaluator::evaluate() calls it between micro-batches, so that the length of a store does not
  // count. It never asks for a stop.
  std::function<bool()> stop_never() {
    return [this] {
      begin_part();
      return false;
    };
  }

  Config config;  // resolved
  // Without heartbeats: those in run.output belong to a run that may train now.
  Watchdog watchdog;
  ModelSource source;
  RunDevice device;
  std::unique_ptr<EvaluationSets> sets;
  std::unique_ptr<ShardedModel> model;
  RunReference reference;  // last: destroyed first
};

// Collective. `world` must outlive the result. Throws the errors of the parts. A load that does not
// end is a hang, as the start of training is (guard.start_timeout_s).
std::unique_ptr<LoadedEvaluation> load_evaluation(const Config& config,
                                                  const EvaluationRequest& request, World& world);

}  // namespace packtrain
