// packtrain evaluate: loss of a model folder or a checkpoint on the validation store.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "training/loop/run.h"

namespace packtrain {
namespace {

nlohmann::ordered_json to_json(const EvaluationRecord& record) {
  nlohmann::ordered_json json = {{"loss", record.loss}};
  if (record.perplexity) json["perplexity"] = *record.perplexity;
  json["num_examples"] = record.num_examples;
  if (record.num_groups > 0) json["num_groups"] = record.num_groups;
  json["num_tokens"] = record.num_tokens;
  json["num_loss_tokens"] = record.num_loss_tokens;
  for (const ObjectiveStatistic& one : record.objective) json["objective"][one.name] = one.value;
  for (const SourceLoss& loss : record.loss_by_source) {
    json["loss_by_source"][loss.source] = loss.loss;
  }
  if (!record.set.empty()) json["set"] = record.set;
  for (const EvaluationRecord& one : record.all_sets) json["sets"][one.set] = to_json(one);
  return json;
}

std::string to_text(const EvaluationRecord& record) {
  std::string text = record.set.empty() ? "" : record.set + "  ";
  text += fmt::format("loss {:.6f}", record.loss);
  if (record.perplexity) text += fmt::format("  perplexity {:.4f}", *record.perplexity);
  if (record.num_groups > 0) text += fmt::format("  {} groups,", record.num_groups);
  text += fmt::format("  {} examples, {} tokens, {} loss tokens\n", record.num_examples,
                      record.num_tokens, record.num_loss_tokens);
  for (const ObjectiveStatistic& one : record.objective) {
    text += fmt::format("  {:<22} {:.6f}\n", one.name, one.value);
  }
  for (const SourceLoss& loss : record.loss_by_source) {
    text += fmt::format("  loss {:.6f}  {}\n", loss.loss, loss.source);
  }
  return text;
}

std::string to_texts(const EvaluationRecord& record) {
  if (record.all_sets.empty()) return to_text(record);
  std::string text;
  for (const EvaluationRecord& one : record.all_sets) text += to_text(one);
  return text;
}

// A model.path or adapter.path on the command line takes precedence over the checkpoints of the
// run.
EvaluatedModel which_model(const Config& config, const std::vector<std::string>& overrides) {
  const auto is_named = [&](std::string_view key) {
    return std::ranges::any_of(overrides,
                               [&](const std::string_view text) { return text.starts_with(key); });
  };
  const bool names_one = (is_named("model.path=") && !config.model.path.empty()) ||
                         (is_named("adapter.path=") && !config.adapter.path.empty());
  return names_one ? EvaluatedModel::kConfigured : EvaluatedModel::kOfRun;
}

// A script must not take such a loss for a result.
void check_finite(const EvaluationRecord& record) {
  const auto is_finite = [](const EvaluationRecord& one) { return std::isfinite(one.loss); };
  if (is_finite(record) && std::ranges::all_of(record.all_sets, is_finite)) return;
  throw Error(ErrorCategory::kNonFinite, "the loss is not finite",
              "The model's weights, or what it computes of this data, are broken: `packtrain "
              "verify` says where.");
}

}  // namespace

int run_evaluate(int argc, char** argv) {
  return in_world([argc, argv](World& world) {
    CLI::App app(
        "Loss on data.validation of the newest checkpoint of run.output or, where there is none or "
        "model.path or adapter.path is given on the command line, of the configured model.",
        "packtrain evaluate");
    ConfigArguments arguments;
    bool as_json = false;
    bool without_adapter = false;
    arguments.add_to(app);
    app.add_flag("--json", as_json, "print one JSON object");
    app.add_flag("--without-adapter", without_adapter, "of the model under the run's adapter");
    app.footer(
        "Examples:\n"
        "  packtrain evaluate my.yaml                             the run's newest checkpoint\n"
        "  packtrain evaluate my.yaml --without-adapter           the model under its adapter\n"
        "  packtrain evaluate my.yaml model.path=models/Llama     that model, as it came\n"
        "  packtrain evaluate my.yaml adapter.path=adapters/mine  that adapter, over model.path");
    if (!parse_arguments(app, argc, argv)) return;
    const auto named = arguments.overrides;  // by the user
    const Config config = load_with_sources(arguments, &world);
    check_for_evaluation(config);
    start_logging(world.rank(), world.size(), "");
    const EvaluationRecord record =
        run_evaluation(config, {which_model(config, named), without_adapter}, world);
    if (world.rank() == 0) print_result(as_json ? to_json(record).dump() + "\n" : to_texts(record));
    check_finite(record);
  });
}

}  // namespace packtrain
