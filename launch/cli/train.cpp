// packtrain train: runs as one process a rank under mpirun, or alone on one rank.
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "framework/config/load.h"
#include "framework/core/logging.h"
#include "framework/core/shell_word.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "training/checkpoint/retention.h"
#include "training/checkpoint/training_state.h"
#include "training/loop/run.h"

namespace packtrain {

namespace {

// Names the best checkpoint of a run that keeps or stops by it. An error here does not fail the
// finished run.
std::string names_best(const Config& config) {
  if (config.checkpoint.keep_best == 0 && config.run.early_stopping_patience == 0) return "";
  try {
    const auto best = find_best_checkpoint(checkpoints_folder(config.run.output));
    if (!best) return "";
    return fmt::format(
        ", the best checkpoint is step {} (validation loss {:.6g}): "
        "`packtrain export {} --best --out FOLDER --tokenizer FOLDER` makes a Hugging Face folder",
        best->step, best->loss, shell_word(config.run.output));
  } catch (const std::exception& error) {
    log_warning("cannot tell which checkpoint is the best: {}", error.what());
    return "";
  }
}

std::string whats_next(const Config& config) {
  const std::string output = shell_word(config.run.output);
  std::string shows = fmt::format("`packtrain report {}` shows the run", output);
  if (const std::string best = names_best(config); !best.empty()) return shows + best;
  if (!config.checkpoint.save_final) return shows;
  return fmt::format(
      "{}, `packtrain export {} --out FOLDER --tokenizer FOLDER` makes a Hugging Face folder",
      shows, output);
}

}  // namespace

int run_train(int argc, char** argv) {
  return in_world([argc, argv](World& world) {
    CLI::App app(
        "Trains as CONFIG says, under mpirun on all ranks, and writes everything to run.output. "
        "Started again, it continues from the newest checkpoint there.",
        "packtrain train");
    ConfigArguments arguments;
    arguments.add_to(app);
    app.footer(
        "Examples:\n"
        "  launch/packtrain-run -n 2 configs/quickstart.yaml run.max_steps=20   two ranks here\n"
        "  packtrain train my.yaml run.output=runs/second                       one rank\n"
        "SIGTERM or Ctrl-C: finishes the step, saves, and ends with 75.\n"
        "`packtrain plan` and `packtrain verify` take the same arguments and train nothing.");
    if (!parse_arguments(app, argc, argv)) return;
    const Config config = load_with_sources(arguments, &world);
    check_for_training(config);
    start_logging(world.rank(), world.size(),
                  fmt::format("{}/log/rank-{}.log", config.run.output, world.rank()));
    if (world.rank() == 0) warn_of_unread_keys(arguments);
    run_training(config, world);
    // Of all ranks each would look at every file of every checkpoint.
    if (world.rank() == 0) log_info("done: {}", whats_next(config));
  });
}

}  // namespace packtrain
