#include "training/loop/loaded_evaluation.h"

#include <fmt/format.h>

#include <string>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "parallel/communicators/collectives.h"
#include "training/checkpoint/checkpoint.h"
#include "training/plan/shard_size.h"
#include "training/plan/token_budget.h"
#include "training/saving/run_folder.h"
#include "training/setup/adapter_source.h"
#include "training/setup/rank_settings.h"
#include "training/setup/saved_config.h"
#include "training/setup/tokenizer_check.h"

namespace packtrain {
namespace {

// A checkpoint is evaluated with the adapter that it holds.
void check_adapter_of_run(const Config& config, const std::string& checkpoint) {
  const Config saved = config_of_run(read_checkpoint_state(checkpoint));
  for (const std::string& key : config_keys()) {
    if (!key.starts_with("adapter.")) continue;
    const std::string own = config_value(config, key);
    const std::string other = config_value(saved, key);
    if (own == other || !sets_adapter_key(config, key)) continue;
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} is {:.200}, but {}, which would be evaluated, was trained with "
                            "{:.200}",
                            key, own, checkpoint, other),
                "Leave it out; or name what to evaluate instead on the command line: "
                "adapter.path=FOLDER, model.path=FOLDER, or --without-adapter for the model under "
                "the run's adapter.");
  }
}

// Rank 0 looks: each look is at every file, and file caches of other hosts may be old.
ModelSource evaluated_model(const Config& config, EvaluatedModel which, Communicator& control) {
  if (which == EvaluatedModel::kOfRun) {
    const std::string newest = run_on_first_rank(control, [&] {
      return find_whole_checkpoint(checkpoints_folder(config.run.output)).value_or("");
    });
    if (!newest.empty()) {
      check_adapter_of_run(config, newest);
      return checkpoint_source(newest, config);
    }
  }
  return find_model(config);
}

// RunReference::digest of the run that a checkpoint is of, or "".
std::string saved_digest(const ModelSource& source) {
  const bool has_state = source.kind == ModelSource::Kind::kCheckpoint ||
                         (source.adapter && is_checkpoint(source.adapter->folder));
  if (!has_state) return "";
  return read_checkpoint_state(source.adapter ? source.adapter->folder : source.folder)
      .reference_digest;
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

std::unique_ptr<LoadedEvaluation> load_evaluation(const Config& given,
                                                  const EvaluationRequest& request, World& world) {
  auto loaded = std::make_unique<LoadedEvaluation>(given, world);
  Config& config = loaded->config;
  check_same_settings(config, world);
  if (world.rank() == 0) {
    for (const Config& own : adapter_configs(config)) check_tokenizers(own);
  }
  loaded->sets = std::make_unique<EvaluationSets>(
      adapter_configs(config), config.checkpoint.best_by, request.without_groups);
  const ModelSource& source = loaded->source =
      evaluated_model(config, request.model, world.control());
  if (request.without_adapter) require_model_under_adapter(source.decoder, "--without-adapter");
  const RunDevice& device = loaded->device = choose_device(config, world);
  config.parallel.shard_size =
      choose_shard_size(config, source.decoder, *device.device, world).num_ranks;
  const TokenBudget budget = token_budget(config, source.decoder, *device.device, world);
  loaded->sets->prepare(source.decoder, budget.tokens, *device.device, world,
                        make_process_mesh(world, *config.parallel.shard_size));
  if (request.without_adapter) loaded->sets->leave_adapter_out();
  log_info("evaluating {} {}{}", describe(source.kind), source.folder,
           request.without_adapter ? ", without its adapter" : "");
  config.parallel.accumulate = Accumulate::kShard;  // no gradients to sum
  loaded->model = make_sharded_model(config, source.decoder, device, world);
  const LoadedWeights weights =
      load_weights(source, config.run.seed, *loaded->model, world.control());
  loaded->reference = open_reference(config, source, device, *loaded->model, weights.base_digest,
                                     saved_digest(source), world);
  loaded->sets->set_reference(
      loaded->reference.forward(*loaded->model),
      [&](const TokenStore& store) { return open_log_probs(loaded->reference, config, store); });
  loaded->begin_part();
  return loaded;
}

}  // namespace packtrain
