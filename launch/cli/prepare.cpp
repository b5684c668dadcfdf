// packtrain prepare: handles token ids and random lengths here; a Python tool does the rest, which
// needs a tokenizer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "framework/data/group_format.h"
#include "framework/data/pretokenized.h"
#include "framework/data/synthetic.h"
#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {
namespace {

constexpr const char* kForms =
    "packtrain prepare makes a token store. Three forms:\n"
    "  packtrain prepare SOURCE... --tokenizer PATH --out STORE          text or JSONL, see below\n"
    "  packtrain prepare --pretokenized FILE... --vocab-size N --out STORE\n"
    "  packtrain prepare --synthetic LENGTHS --examples N --vocab-size N --out STORE\n"
    "The last two need no Python.\n\n";

struct StoreArguments {
  std::string out;
  std::int64_t vocab_size = 0;
  bool overwrite = false;

  void add_to(CLI::App& app) {
    app.add_option("--vocab-size", vocab_size, "ids are 0..N-1")
        ->required()
        ->check(positive_number());
    app.add_option("--out", out, "folder of the store to make")->required()->type_name("STORE");
    app.add_flag("--overwrite", overwrite, "replace a store that is there");
  }
};

void print_store(const std::string& folder, const StoreInfo& info) {
  print_result(fmt::format("{}: {} examples, {} tokens, {} loss tokens\n", folder,
                           info.num_examples, info.num_tokens, info.num_loss_tokens));
  if (info.groups) {
    print_result(fmt::format("{} groups of the kind '{}'\n", info.groups->num_groups,
                             name_of(info.groups->kind)));
  }
  if (info.num_bad_lines == 0) return;
  print_result(
      fmt::format("skipped {} bad lines: see {}/{}\n", info.num_bad_lines, folder, kBadLinesName));
}

int run_pretokenized(int argc, char** argv) {
  CLI::App app(
      "Makes a token store from JSONL lines with input_ids and, optionally, labels; or with such "
      "objects under chosen and rejected, or under desirable or undesirable.",
      "packtrain prepare");
  std::vector<std::string> files;
  std::vector<std::string> token_columns;
  StoreArguments store;
  BadLinePolicy policy;
  app.add_option("--pretokenized", files, "JSONL files")->required()->type_name("FILE...");
  store.add_to(app);
  app.add_option("--token-column", token_columns,
                 "a key with a number for each token, such as advantage, which the store keeps "
                 "(repeatable)")
      ->type_name("NAME");
  app.add_flag("--skip-bad-lines", policy.skip,
               "list lines that cannot be used in OUT/bad-lines.jsonl, instead of stopping at the "
               "first");
  app.add_option("--max-bad-fraction", policy.max_fraction,
                 "of all lines, that may be skipped (default 0.001)")
      ->check(CLI::Range(0.0, 1.0))
      ->needs("--skip-bad-lines");
  if (!parse_arguments(app, argc, argv)) return 0;
  print_store(store.out, prepare_pretokenized(files, store.vocab_size, store.out, store.overwrite,
                                              policy, token_columns));
  return 0;
}

int run_synthetic(int argc, char** argv) {
  CLI::App app("Makes a token store of random ids, for benchmarks.", "packtrain prepare");
  std::string lengths;
  SyntheticOptions options;
  StoreArguments store;
  app.add_option("--synthetic", lengths,
                 "lognormal:MU,SIGMA[,MIN,MAX] or constant:LENGTH, in tokens")
      ->required()
      ->type_name("LENGTHS");
  app.add_option("--examples", options.num_examples, "how many")
      ->required()
      ->check(positive_number());
  app.add_option("--supervised-fraction", options.supervised_fraction,
                 "of each example, its end, as completions are (default 1)");
  app.add_option("--seed", options.seed, "of lengths and ids (default 0)");
  store.add_to(app);
  if (!parse_arguments(app, argc, argv)) return 0;
  options.lengths = parse_lengths(lengths);
  options.vocab_size = store.vocab_size;
  print_store(store.out, prepare_synthetic(options, store.out, store.overwrite));
  return 0;
}

// Options of all forms, then the help of the Python tool.
[[noreturn]] void print_help(char** argv) {
  std::string help = "--help";
  std::array<char*, 2> ask = {argv[0], help.data()};
  print_result(kForms);
  run_pretokenized(2, ask.data());
  run_synthetic(2, ask.data());
  run_tool("prepare.py", std::span(ask).subspan(1));
}

}  // namespace

int run_prepare(int argc, char** argv) {
  if (has_option(argc, argv, "--help") || has_option(argc, argv, "-h")) print_help(argv);
  if (has_option(argc, argv, "--pretokenized")) return run_pretokenized(argc, argv);
  if (has_option(argc, argv, "--synthetic")) return run_synthetic(argc, argv);
  run_tool("prepare.py", std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
}

}  // namespace packtrain
