#include "training/loop/run_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/config/objective_settings.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/shell_word.h"
#include "framework/data/store_format.h"
#include "training/setup/adapter_source.h"
#include "training/setup/base_digest.h"
#include "training/setup/reference_model.h"
#include "training/setup/store_kind.h"

namespace packtrain {
namespace {

// A new adapter changes nothing, so that the model under it is the one that training begins with.
std::string first_digest(const ModelSource& source, ShardedModel& policy,
                         const std::string& base_digest, World& world) {
  const bool is_new = source.adapter && source.adapter->kind == AdapterSource::Kind::kInitial;
  return is_new ? base_digest : model_digest(policy, world.control());
}

std::unique_ptr<ShardedModel> load_second_model(const Config& config, const ModelSource& policy,
                                                const RunDevice& device, Stream& compute,
                                                World& world) {
  const Config own = reference_config(config);
  const ModelSource source = find_model(own);
  check_reference_vocabulary(own, source.decoder, policy.decoder);
  require_shareable_rows(source.decoder, shares_prefixes(config), "the reference model");
  log_info("reference: {}, which is not trained", source.folder);
  auto model = make_sharded_model(own, source.decoder, device, world, &compute);
  load_weights(source, own.run.seed, *model, world.control());
  return model;
}

// The command makes a file with the same digest: frozen weights may be rounded or encoded.
std::string score_command(const Config& config, const std::string& folder) {
  std::string command = fmt::format(
      "packtrain score {} {} --log-probs",
      config.model.path.empty() ? "CONFIG" : shell_word(config.model.path), shell_word(folder));
  if (config.model.base != BaseStorage::kBFloat16) {
    command += " model.base=" + config_value(config, "model.base");
  }
  if (config.precision.compute != PrecisionSection().compute) {
    command += " precision.compute=" + config_value(config, "precision.compute");
  }
  if (!config.batch.share_prefixes) command += " batch.share_prefixes=false";
  if (!trains_adapter(config)) return command;
  if (!config.adapter.path.empty()) {
    return fmt::format("{} adapter.kind=lora adapter.path={}", command,
                       shell_word(config.adapter.path));
  }
  return command + " adapter.kind=lora --without-adapter";
}

}  // namespace

ReferenceModel RunReference::forward(ShardedModel& policy) const {
  if (source == ReferenceSource::kBase) return {&policy, /*without_adapter=*/true};
  return {model.get(), false};
}

RunReference open_reference(const Config& config, const ModelSource& source,
                            const RunDevice& device, ShardedModel& policy,
                            const std::string& base_digest, const std::string& saved_digest,
                            World& world) {
  RunReference reference;
  reference.source = reference_source(config);
  if (reference.source == ReferenceSource::kBase) {
    require_model_under_adapter(source.decoder, "objective.reference: base");
  } else if (reference.source == ReferenceSource::kModel) {
    reference.model = load_second_model(config, source, device, policy.compute(), world);
  } else if (reference.source == ReferenceSource::kLogProbs) {
    reference.digest = config.objective.reference_path;
    if (reference.digest.empty()) reference.digest = saved_digest;
    if (reference.digest.empty()) {
      reference.digest = first_digest(source, policy, base_digest, world);
    }
    log_info("reference: log-probabilities of the model {} in the folders of the stores",
             reference.digest);
  }
  return reference;
}

void require_log_probs(const RunReference& reference, const Config& config) {
  if (reference.source != ReferenceSource::kLogProbs) return;
  std::vector<std::string> missing;
  std::vector<std::string> commands;
  const auto look = [&](const std::string& folder) {
    if (std::filesystem::exists(folder + "/" + scores_name(reference.digest))) return;
    missing.push_back(folder);
    commands.push_back(score_command(config, folder));
  };
  for (const TrainStore& store : config.data.train) look(store.path);
  for (const ValidationStore& store : config.data.validation) look(store.path);
  if (missing.size() < 2) return;  // opening the file says the same
  throw Error(ErrorCategory::kData,
              fmt::format("objective.reference is log_probs, but {} have no log-probabilities of "
                          "the model {}",
                          fmt::join(missing, " and "), reference.digest),
              "Make them: " + fmt::format("{}", fmt::join(commands, " && ")));
}

std::unique_ptr<ReferenceLogProbs> open_log_probs(const RunReference& reference,
                                                  const Config& config, const TokenStore& store) {
  if (reference.source != ReferenceSource::kLogProbs || store.groups() == nullptr) return nullptr;
  return std::make_unique<ReferenceLogProbs>(
      store, reference.digest,
      [&](const std::string& folder) { return score_command(config, folder); });
}

}  // namespace packtrain
