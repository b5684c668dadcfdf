// packtrain export: a checkpoint as a Hugging Face folder. One process, no job.
#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/data/tokenizer_tokens.h"
#include "framework/support/error.h"
#include "framework/support/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"

namespace packtrain {
namespace {

// `source` itself when it is a checkpoint, else the newest one of a run folder.
std::string find_checkpoint(const std::string& source) {
  if (is_checkpoint(source)) return source;
  if (const auto newest = find_latest_checkpoint(checkpoints_folder(source))) return *newest;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{}: got a folder without a usable checkpoint, wanted a checkpoint (with "
                          "its manifest) or a run folder (with checkpoints/step-N)",
                          source),
              "Give the run.output folder of a run that saved one.");
}

// A text with a token that the model has no row for ends the program that generates from it.
void warn_of_tokens_without_rows(const std::string& tokenizer_folder, std::int64_t vocab_size) {
  const auto text = read_tokenizer(tokenizer_folder);
  const std::int64_t num_tokens = text ? std::ssize(tokens_by_id(*text)) : 0;
  if (num_tokens <= vocab_size) return;
  log_warning(
      "{}: the tokenizer has {} tokens, the model {}: the last {} have no row. Copy the tokenizer "
      "that the data was prepared with, or train with model.resize_vocabulary: {}.",
      tokenizer_folder, num_tokens, vocab_size, num_tokens - vocab_size, num_tokens);
}

}  // namespace

int run_export(int argc, char** argv) {
  CLI::App app("Writes a checkpoint as a Hugging Face folder that `transformers` loads.",
               "packtrain export");
  std::string source;
  std::string out;
  std::string dtype = "bfloat16";
  ExportOptions options;
  app.add_option("SOURCE", source, "checkpoint folder, or run folder: its newest")->required();
  app.add_option("--out", out, "folder to make")->required()->type_name("DIR");
  app.add_option("--dtype", dtype, "of the weights written (default bfloat16)")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--tokenizer", options.tokenizer_folder, "folder whose tokenizer files to copy")
      ->type_name("DIR");
  app.add_option("--max-shard-size", options.max_shard_bytes,
                 "of a file: like 5GB, 500MB (default 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true))
      ->check(positive_number());
  app.footer(
      "Example:\n"
      "  packtrain export runs/my --out models/mine --tokenizer models/Llama-3.2-1B");
  if (!parse_arguments(app, argc, argv)) return 0;
  if (out.empty()) reject_usage(app, "--out is empty, wanted the folder to make");
  options.bfloat16 = dtype == "bfloat16";

  const std::string checkpoint = find_checkpoint(source);
  const TrainingState state = read_checkpoint_state(checkpoint);
  options.model_config = state.model_config;
  const DecoderConfig decoder = parse_decoder_config(state.model_config);
  warn_of_tokens_without_rows(options.tokenizer_folder, decoder.vocab_size);
  export_model(out, decoder, checkpoint_parameters(checkpoint), options);
  print_result(fmt::format("{}: step {} of {}, {}{}\n", out, state.step, checkpoint, dtype,
                           options.tokenizer_folder.empty()
                               ? ", without a tokenizer (--tokenizer DIR copies one)"
                               : ""));
  return 0;
}

}  // namespace packtrain
