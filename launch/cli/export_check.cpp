#include "launch/cli/export_check.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/config/config.h"
#include "framework/core/error.h"
#include "launch/cli/export_start.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "training/loop/run.h"

namespace packtrain {
namespace {

Config evaluation_config(const TrainingState& state, const std::string& folder,
                         const std::string& store) {
  const Config run = config_of_run(state);
  Config config = run;
  config.model = {};
  config.model.path = folder;
  config.model.dropout = run.model.dropout;
  config.data.train.clear();
  config.data.validation = {{"", store}};
  config.checkpoint.best_by.clear();
  config.parallel.shard_size.reset();
  return config;
}

std::string loss_of_run(const TrainingState& state) {
  if (!state.validation_loss) return "the run's own evaluation is not known";
  const std::string set =
      state.validation_set.empty() ? "its data.validation" : "its " + state.validation_set;
  return fmt::format("the run's own evaluation of step {}: {:.6f} on {}", state.step,
                     *state.validation_loss, set);
}

}  // namespace

int check_export(const std::string& folder, const TrainingState& state, const std::string& store) {
  return in_world([&](World& world) {
    const Config config = evaluation_config(state, folder, store);
    const EvaluationRecord record = run_evaluation(config, {EvaluatedModel::kConfigured}, world);
    print_result(fmt::format("loss {:.6f} on {} ({} examples); {}\n", record.loss, store,
                             record.num_examples, loss_of_run(state)));
    if (std::isfinite(record.loss)) return;
    throw Error(ErrorCategory::kNonFinite, fmt::format("the loss of {} is not finite", folder),
                "Do not use it: `packtrain evaluate` says whether the checkpoint has the same.");
  });
}

}  // namespace packtrain
