// packtrain score: log-probabilities of a store's supervised tokens. With --tasks it is a Python
// tool, which runs lm_eval over this program.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "launch/cli/tools.h"
#include "training/loop/scoring.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

struct ScoreArguments {
  std::string source;
  std::vector<std::string> words;  // STORE, and settings
  std::string out;
  std::string candidate_tokens;
  std::int64_t part_tokens = 0;
  bool log_probs = false;
  bool without_adapter = false;
  bool as_json = false;

  void add_to(CLI::App& app);
};

void ScoreArguments::add_to(CLI::App& app) {
  app.add_option("CONFIG|RUN|MODEL", source,
                 "configuration file, run's folder, Hugging Face folder, or hf:OWNER/NAME")
      ->required();
  app.add_option("STORE|OVERRIDES", words,
                 "the store to score, in place of data.validation, and section.key=value");
  app.add_flag("--log-probs", log_probs, "of each supervised token, in a file");
  app.add_option("--out", out,
                 "the file; of several sets a folder (default: log-probs-DIGEST.safetensors in "
                 "each store)")
      ->type_name("FILE");
  app.add_option("--candidates", candidate_tokens,
                 "also of tokens after each example's end: a file that docs/score.md describes")
      ->type_name("FILE");
  app.add_option("--part-tokens", part_tokens,
                 "tokens between two saves, so that a stopped command continues (default: 256 "
                 "micro-batches)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_flag("--without-adapter", without_adapter, "of the model under the run's adapter");
  app.add_flag("--json", as_json, "print one JSON object");
  app.footer(
      "Examples:\n"
      "  packtrain score models/Llama stores/pairs --log-probs    reference values of a store\n"
      "  packtrain score my.yaml --log-probs --out scores.safetensors\n"
      "  packtrain score models/Llama --tasks hellaswag,lambada_openai\n"
      "The options of the last form follow. docs/score.md has the format of the file.");
}

bool is_override(std::string_view word) {
  return word.substr(0, word.find('/')).find('=') != std::string_view::npos;
}

// A JSON text is also YAML.
std::string setting(const char* key, const std::string& value) {
  return fmt::format("{}={}", key, nlohmann::json(value).dump());
}

// `named`: the model is that of the command line, and not the newest checkpoint of a run.
Config read_config(const CLI::App& app, const ScoreArguments& arguments, World& world,
                   bool& named) {
  std::string path = arguments.source;
  std::vector<std::string> settings;
  const std::string of_run = path + "/config.yaml";
  if (fs::exists(of_run)) {
    // A run's folder may have been moved, and its own path may be relative to another folder.
    if (fs::is_directory(path + "/checkpoints")) settings.push_back(setting("run.output", path));
    path = of_run;
  } else if (fs::is_directory(path) || path.starts_with("hf:")) {
    settings.push_back(setting("model.path", path));
    path = "";
  }
  for (const std::string& word : arguments.words) {
    if (is_override(word)) {
      settings.push_back(word);
    } else {
      settings.push_back(setting("data.validation", word));
    }
  }
  if (std::ranges::count_if(arguments.words, std::not_fn(is_override)) > 1) {
    reject_usage(app, "got several stores, wanted one");
  }
  named = std::ranges::any_of(
      settings, [](const std::string_view text) { return text.starts_with("model.path="); });
  ConfigArguments chosen = {.path = path, .overrides = settings};
  return load_with_sources(chosen, &world);
}

nlohmann::ordered_json to_json(const ScoredSet& one) {
  nlohmann::ordered_json json = {{"store", one.store},
                                 {"file", one.file},
                                 {"kept", one.kept},
                                 {"num_examples", one.record.num_examples},
                                 {"num_tokens", one.record.num_tokens},
                                 {"num_loss_tokens", one.record.num_loss_tokens},
                                 {"seconds", one.seconds}};
  if (!one.record.set.empty()) json["set"] = one.record.set;
  if (!one.kept) {
    json["num_examples_found"] = one.num_examples_found;
    json["num_tokens_scored"] = one.num_tokens_scored;
    json["loss"] = one.record.loss;
  }
  return json;
}

std::string to_text(const ScoredSet& one) {
  if (one.kept) {
    return fmt::format("{}: is there, of the same model and data: kept\n", one.file);
  }
  const double rate =
      one.seconds > 0 ? static_cast<double>(one.num_tokens_scored) / one.seconds : 0;
  return fmt::format(
      "{}: log-probabilities of {} tokens, {} examples, mean {:.6f}, {:.0f} tokens/s\n", one.file,
      one.record.num_loss_tokens, one.record.num_examples, -one.record.loss, rate);
}

void print_scored(const std::vector<ScoredSet>& scored, bool as_json) {
  if (!as_json) {
    for (const ScoredSet& one : scored) print_result(to_text(one));
    return;
  }
  nlohmann::ordered_json sets = nlohmann::ordered_json::array();
  for (const ScoredSet& one : scored) sets.push_back(to_json(one));
  print_result(nlohmann::ordered_json{{"sets", std::move(sets)}}.dump() + "\n");
}

int run_log_probs(int argc, char** argv) {
  return in_world([argc, argv](World& world) {
    CLI::App app("Log-probabilities of the supervised tokens of a store, or scores of tasks.",
                 "packtrain score");
    ScoreArguments arguments;
    arguments.add_to(app);
    if (!parse_arguments(app, argc, argv)) return;
    if (!arguments.log_probs) reject_usage(app, "got neither --log-probs nor --tasks, wanted one");
    bool named = false;
    const Config config = read_config(app, arguments, world, named);
    check_for_evaluation(config);
    start_logging(world.rank(), world.size(), "");
    ScoringOptions options;
    options.request.model = named ? EvaluatedModel::kConfigured : EvaluatedModel::kOfRun;
    options.request.without_adapter = arguments.without_adapter;
    options.out = arguments.out;
    options.candidate_tokens = arguments.candidate_tokens;
    options.part_tokens = arguments.part_tokens;
    const std::vector<ScoredSet> scored = run_scoring(config, options, world);
    if (world.rank() == 0) print_scored(scored, arguments.as_json);
  });
}

// The options of both forms: those with --tasks are in the help of the Python tool.
[[noreturn]] void print_both_helps(char** argv) {
  std::string help = "--help";
  std::array<char*, 2> ask = {argv[0], help.data()};
  run_log_probs(2, ask.data());
  print_result("\n");
  run_tool_with_program("score.py", 2, ask.data());
}

}  // namespace

int run_score(int argc, char** argv) {
  if (has_option(argc, argv, "--tasks")) run_tool_with_program("score.py", argc, argv);
  if (has_option(argc, argv, "--help") || has_option(argc, argv, "-h")) print_both_helps(argv);
  return run_log_probs(argc, argv);
}

}  // namespace packtrain
