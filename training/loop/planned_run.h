// A run's plan and its model with weights: new ones, or those of the checkpoint it resumes from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/faults/fault_injector.h"
#include "training/guards/communicator_watch.h"
#include "training/loop/run_inputs.h"
#include "training/loop/run_reference.h"
#include "training/plan/memory_report.h"
#include "training/plan/run_plan.h"
#include "training/steps/learning_rate.h"

namespace packtrain {

struct PlannedRun {
  std::unique_ptr<MemoryReport> memory;
  std::optional<ResumePoint> resumed;
  std::unique_ptr<RunPlan> plan;
  std::vector<LearningRate> learning_rates;  // of each adapter, or one
  std::string base_digest;                   // of the weights under an adapter, else ""
  std::vector<ShardView> initial_values;     // of PiSSA (LoadedWeights)
  Config resolved;  // the configuration, with what memory decided; the model has it
  std::unique_ptr<ShardedModel> model;
  RunReference reference;
  std::unique_ptr<ReferenceLogProbs> log_probs;           // of the training store, or none
  std::unique_ptr<CommunicatorWatch> communicator_watch;  // last: destroyed before the model

  std::int64_t first_step() const { return resumed ? resumed->step : 0; }
  std::int64_t total_steps() const { return plan->total_steps(); }
  std::vector<double> learning_rates_at(std::int64_t step) const;
};

// Plans, makes the model and loads its weights. Passes over damaged checkpoints if the
// configuration allows it. Also prepares the evaluation sets for the model. Collective. `inputs`
// and `world` must outlive the result.
PlannedRun plan_and_load(const Config& config, const RunInputs& inputs, FaultInjector& faults,
                         World& world);

}  // namespace packtrain
