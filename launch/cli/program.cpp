#include "launch/cli/program.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/nearest.h"
#include "launch/cli/output.h"

namespace packtrain {
namespace {

const Subcommand kSubcommands[] = {
    {"prepare", "make a token store from text, JSONL, token ids or random lengths", run_prepare},
    {"import", "turn a configuration of axolotl, LLaMA-Factory or TRL into ours", run_import},
    {"tune", "prepare, train, evaluate and export in one command", run_tune},
    {"plan", "steps, balance, memory and losses of a run, without a device", run_plan},
    {"inspect", "show examples with their loss mask, and the pack they land in", run_inspect},
    {"verify", "prove packed = one by one and N ranks = 1 before training", run_verify},
    {"train", "train a model as a configuration says", run_train},
    {"compare", "train every strategy on the same data: speed, memory, losses side by side",
     run_compare},
    {"sweep", "train many configurations: a queue, one table of results, the best one", run_sweep},
    {"report", "one HTML file about runs: curves, packing, where the time goes", run_report},
    {"follow", "hand a run's metrics to TensorBoard, Weights & Biases or MLflow", run_follow},
    {"evaluate", "loss of a model or checkpoint on the validation store", run_evaluate},
    {"score", "log-probabilities of a store's tokens, or scores of lm_eval's tasks", run_score},
    {"chat", "talk to a run or a model, next to its base if you like", run_chat},
    {"export", "write a checkpoint as a Hugging Face folder", run_export},
    {"merge", "add an adapter to its model: one Hugging Face folder", run_merge},
    {"push", "upload a model or adapter to the Hugging Face Hub, with a model card", run_push},
    {"doctor", "look at the machines of a job: OK, SLOW or BROKEN, and what to do", run_doctor},
    {"families", "the families of models that are trained, with published ones", run_families},
    {"config", "what a configuration resolves to, and what its keys mean", run_config},
    {"version", "print the version", run_version},
};

constexpr const char* kAfterSubcommands = R"(
`packtrain SUBCOMMAND --help` shows what a subcommand takes. A first run:
  packtrain prepare data.jsonl --tokenizer models/Llama-3.2-1B --out stores/data
  packtrain plan my.yaml --ranks 2
  launch/packtrain-run -n 2 my.yaml

train, verify, compare, evaluate, score and doctor are started on several ranks: by
`launch/packtrain-run -n N`, or by mpirun. Results are on standard output, all else on standard error.

Exit codes: 0 done; 64 configuration or command line; 65 data; 66 checkpoint; 69 a device or peer
is lost or missing; 70 internal; 71 loss not finite; 72 hang; 73 replicas differ; 74 verify failed;
75 stopped and saved, start it again; 76 doctor found something slow; 93 do not restart.
docs/operations.md says more of each, docs/troubleshooting.md what to do.
)";

std::string program_help() {
  std::string text =
      "packtrain trains language models on examples of many lengths, packed without padding.\n\n"
      "Usage: packtrain SUBCOMMAND [ARGUMENTS]\n\nSubcommands:\n";
  for (const Subcommand& subcommand : kSubcommands) {
    text += fmt::format("  {:<10} {}\n", subcommand.name, subcommand.summary);
  }
  return text + kAfterSubcommands;
}

struct OtherWord {
  std::string_view word;
  const char* advice;
};

// Names of subcommands in other programs.
constexpr OtherWord kOtherWords[] = {
    {"convert", "`packtrain export` writes Hugging Face folders; they are read as they are."},
    {"eval", "It is called evaluate here."},
    {"finetune", "It is called tune here, or train with a configuration of your own."},
    {"generate", "It is called chat here; samples.* shows continuations while a run trains."},
    {"infer", "It is called chat here."},
    {"pretrain", "It is called train here; model.config makes random weights."},
    {"preprocess", "It is called prepare here."},
    {"resume", "Start `packtrain train` with the same configuration again: it continues."},
    {"sft", "It is called train here."},
    {"tokenize", "It is called prepare here."},
    {"upload", "It is called push here."},
};

std::string advise(const std::string& typed) {
  for (const auto& [word, advice] : kOtherWords) {
    if (typed == word) return advice;
  }
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) names.emplace_back(subcommand.name);
  const auto near = nearest_name(typed, names);
  return near ? fmt::format("Did you mean {}?", *near) : "`packtrain --help` lists them.";
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
  throw Error(ErrorCategory::kConfig, fmt::format("unknown subcommand '{}'", name), advise(name));
}

}  // namespace

int run_program(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // makes a file beyond `ulimit -f` an error of its write
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
