#include "framework/training/run.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <set>

#include "framework/checkpoint/checkpoint.h"
#include "framework/data/token_store.h"
#include "framework/training/evaluator.h"
#include "framework/training/model_source.h"
#include "framework/training/run_device.h"
#include "framework/training/run_folder.h"
#include "framework/training/token_budget.h"
#include "framework/training/trainer.h"

namespace packtrain {
namespace {

// model.path when given, else the newest checkpoint of the run, else the configured random weights.
ModelSource evaluated_model(const Config& config) {
  if (config.model.path.empty()) {
    const auto newest = find_latest_checkpoint(checkpoints_folder(config));
    if (newest) return checkpoint_source(*newest);
  }
  return find_model(config.model);
}

const char* describe(ModelSource::Kind kind) {
  switch (kind) {
    case ModelSource::Kind::kRandom:
      return "random initial weights";
    case ModelSource::Kind::kHuggingFace:
      return "Hugging Face folder";
    case ModelSource::Kind::kCheckpoint:
      return "checkpoint";
  }
  return "";
}

}  // namespace

// A run that is rewound is resumed: nothing is kept of the way back but the step it leaves out.
void run_training(const Config& config, World& world) {
  Config current = config;
  std::set<std::int64_t> left_out;
  for (;;) {
    const std::optional<std::int64_t> rewound = Trainer(current, world, left_out).run();
    if (!rewound) return;
    left_out.insert(*rewound);
    const bool has_own = find_latest_checkpoint(checkpoints_folder(config)).has_value();
    if (has_own || config.checkpoint.resume == "never") current.checkpoint.resume = "auto";
    world.control().barrier();  // nobody saves before all have looked
    spdlog::warn("step {} was refused: going back to {}, and on without its update", *rewound,
                 has_own ? "the newest checkpoint" : "the start");
  }
}

EvaluationRecord run_evaluation(const Config& config, World& world) {
  const auto store = TokenStore::open(config.data.validation);
  const ModelSource source = evaluated_model(config);
  check_vocabulary(store->folder(), store->info().vocab_size, source.decoder);
  const RunDevice device = choose_device(config, world);
  const TokenBudget budget = token_budget(config, source.decoder, *device.device, world);
  Evaluator evaluator(*store, budget.tokens, *device.device, world);
  spdlog::info("evaluating {} {}", describe(source.kind), source.folder);
  const auto model = make_sharded_model(config, source.decoder, device, world);
  load_weights(source, config.run.seed, *model);
  return evaluator.evaluate(*model, 0);
}

}  // namespace packtrain
