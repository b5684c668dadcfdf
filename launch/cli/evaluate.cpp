// packtrain evaluate: loss on the validation store, of a model folder or a checkpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "framework/config/load.h"
#include "framework/support/logging.h"
#include "framework/training/run.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"

namespace packtrain {
namespace {

std::string to_json(const EvaluationRecord& record) {
  nlohmann::ordered_json json = {{"loss", record.loss},
                                 {"perplexity", record.perplexity},
                                 {"num_examples", record.num_examples},
                                 {"num_tokens", record.num_tokens},
                                 {"num_loss_tokens", record.num_loss_tokens}};
  for (const SourceLoss& loss : record.loss_by_source) {
    json["loss_by_source"][loss.source] = loss.loss;
  }
  return json.dump() + "\n";
}

std::string to_text(const EvaluationRecord& record) {
  std::string text = fmt::format(
      "loss {:.6f}  perplexity {:.4f}  {} examples, {} tokens, {} loss tokens\n", record.loss,
      record.perplexity, record.num_examples, record.num_tokens, record.num_loss_tokens);
  for (const SourceLoss& loss : record.loss_by_source) {
    text += fmt::format("  loss {:.6f}  {}\n", loss.loss, loss.source);
  }
  return text;
}

}  // namespace

int run_evaluate(int argc, char** argv) {
  return in_world([argc, argv](World& world) {
    CLI::App app(
        "Loss on data.validation of model.path, or of the newest checkpoint of run.output.",
        "packtrain evaluate");
    ConfigArguments arguments;
    bool as_json = false;
    arguments.add_to(app);
    app.add_flag("--json", as_json, "print one JSON object");
    if (!parse_arguments(app, argc, argv)) return;
    const Config config = load_config(arguments.path, arguments.overrides);
    check_for_evaluation(config);
    start_logging(world.rank(), world.size(), "");
    const EvaluationRecord record = run_evaluation(config, world);
    if (world.rank() == 0) print_result(as_json ? to_json(record) : to_text(record));
  });
}

}  // namespace packtrain
