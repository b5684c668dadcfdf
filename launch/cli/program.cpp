#include "launch/cli/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "framework/support/error.h"
#include "framework/support/logging.h"
#include "framework/support/nearest.h"
#include "launch/cli/output.h"

namespace packtrain {
namespace {

const Subcommand kSubcommands[] = {
    {"prepare", "make a token store from text, JSONL, token ids or random lengths", run_prepare},
    {"plan", "steps, balance, memory and losses of a run, without a device", run_plan},
    {"verify", "prove packed = one by one and N ranks = 1 before training", run_verify},
    {"train", "train a model as a configuration says", run_train},
    {"compare", "train every strategy on the same data: speed, memory, losses side by side",
     run_compare},
    {"evaluate", "loss of a model or checkpoint on the validation store", run_evaluate},
    {"export", "write a checkpoint as a Hugging Face folder", run_export},
    {"version", "print the version", run_version},
};

std::string program_help() {
  std::string text =
      "packtrain trains language models on examples of many lengths, packed without padding.\n\n"
      "Usage: packtrain SUBCOMMAND [ARGUMENTS]\n\nSubcommands:\n";
  for (const Subcommand& subcommand : kSubcommands) {
    text += fmt::format("  {:<10} {}\n", subcommand.name, subcommand.summary);
  }
  return text + "\n`packtrain SUBCOMMAND --help` shows what a subcommand takes.\n";
}

[[noreturn]] void reject_subcommand(const std::string& typed) {
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) names.emplace_back(subcommand.name);
  const auto near = nearest_name(typed, names);
  throw Error(ErrorCategory::kConfig, fmt::format("unknown subcommand '{}'", typed),
              near ? fmt::format("Did you mean {}?", *near) : "`packtrain --help` lists them.");
}

int dispatch(int argc, char** argv) {
  if (argc < 2) {
    throw Error(ErrorCategory::kConfig, "no subcommand given", "`packtrain --help` lists them.");
  }
  const std::string name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_result(program_help());
    return 0;
  }
  if (name == "--version") return run_version(1, argv);
  for (const Subcommand& subcommand : kSubcommands) {
    if (name == subcommand.name) return subcommand.run(argc - 1, argv + 1);
  }
  reject_subcommand(name);
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    start_logging(0, 1, "");  // before a world is joined: one process
    return dispatch(argc, argv);
  } catch (const std::exception& failure) {
    const Failure described = describe(failure);
    std::fputs((described.text + "\n").c_str(), stderr);
    return described.exit_code;
  }
}

}  // namespace packtrain
