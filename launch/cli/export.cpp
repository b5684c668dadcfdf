// packtrain export: a checkpoint as a Hugging Face folder. One process, no job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/checkpoint/retention.h"
#include "framework/data/tokenizer_tokens.h"
#include "framework/support/error.h"
#include "framework/support/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/export_start.h"
#include "launch/cli/export_stores.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "models/families/text_part.h"

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

struct Checkpoint {
  std::string folder;
  std::int64_t step = 0;
  std::optional<double> loss;  // on the validation data
};

// Those of a run that can be used, newest first.
std::vector<Checkpoint> usable_checkpoints(const std::string& run) {
  std::vector<Checkpoint> found;
  for (const StoredFolder& stored : list_folders(checkpoints_folder(run))) {
    if (find_fault(stored)) continue;
    const TrainingState state = read_checkpoint_state(stored.path);
    found.push_back({stored.path, state.step, state.validation_loss});
  }
  return found;
}

// The one of the lowest validation loss, the newest of equals; nothing where none has a loss.
std::optional<Checkpoint> best_of(const std::vector<Checkpoint>& checkpoints) {
  std::optional<Checkpoint> best;
  for (const Checkpoint& one : checkpoints) {
    if (one.loss && std::isfinite(*one.loss) && (!best || *one.loss < *best->loss)) best = one;
  }
  return best;
}

std::string best_checkpoint(const std::string& source) {
  if (is_checkpoint(source)) {
    throw Error(ErrorCategory::kConfig, fmt::format("--best: {} is one checkpoint", source),
                "Give the run's folder, or leave out --best.");
  }
  if (const auto best = best_of(usable_checkpoints(source))) return best->folder;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("--best: no usable checkpoint of {} has a validation loss", source),
              "Only runs with data.validation know it; without --best the newest is exported.");
}

// Of a run whose newest checkpoint is not its best.
void tell_of_best(const std::string& source) {
  const auto checkpoints = usable_checkpoints(source);
  const auto best = best_of(checkpoints);
  if (!best || best->folder == checkpoints.front().folder) return;
  const Checkpoint& newest = checkpoints.front();
  const std::string loss =
      newest.loss ? fmt::format("validation loss {:.6g}", *newest.loss) : "no validation loss";
  log_warning("step {} is the newest ({}), step {} the best ({:.6g}): --best writes that one",
              newest.step, loss, best->step, *best->loss);
}

// What the data says of ends and templates, into `options`.
void follow_stores(const TrainingState& state, std::int64_t vocab_size, bool any_tokenizer,
                   ExportOptions& options) {
  const RunStores stores = read_run_stores(state);
  for (const std::string& folder : stores.gone) {
    log_warning(
        "{}: the run's store is not there, so its end tokens and its tokenizer are not "
        "compared",
        folder);
  }
  const std::string& tokenizer =
      options.tokenizer_folder.empty() ? options.whole_folder : options.tokenizer_folder;
  if (!tokenizer.empty() && !any_tokenizer) {
    check_exported_tokenizer(stores, tokenizer);
    options.chat_template = stores.chat_template;
  }
  for (const std::int64_t id : stores.end_tokens) {
    if (id < vocab_size) options.end_tokens.push_back(id);
  }
  if (!stores.end_texts.empty()) {
    log_info("end tokens of the data: {} (in eos_token_id)", fmt::join(stores.end_texts, ", "));
  }
}

}  // namespace

int run_export(int argc, char** argv) {
  CLI::App app("Writes a checkpoint as a Hugging Face folder that `transformers` loads.",
               "packtrain export");
  std::string source;
  std::string out;
  std::string dtype = "bfloat16";
  bool best = false;
  bool any_tokenizer = false;
  bool text_only = false;
  std::string base;
  ExportOptions options;
  app.add_option("SOURCE", source, "checkpoint folder, or run folder: its newest")->required();
  app.add_option("--out", out, "folder to make")->required()->type_name("DIR");
  app.add_option("--dtype", dtype, "of the weights written (default bfloat16)")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--tokenizer", options.tokenizer_folder, "folder whose tokenizer files to copy")
      ->type_name("DIR");
  app.add_flag("--best", best, "of a run: the checkpoint of the lowest validation loss");
  app.add_flag("--other-tokenizer", any_tokenizer,
               "copy the tokenizer even if it is not that of the run's data");
  app.add_option("--base", base, "the folder of model.path, where it lies elsewhere now")
      ->type_name("DIR");
  app.add_flag("--text-only", text_only,
               "of a model of more than text: write the text model alone");
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

  const std::string checkpoint = best ? best_checkpoint(source) : find_checkpoint(source);
  if (!best && !is_checkpoint(source)) tell_of_best(source);
  const TrainingState state = read_checkpoint_state(checkpoint);
  options.model_config = state.model_config;
  const DecoderConfig decoder = parse_decoder_config(state.model_config);
  if (has_text_part(state.model_config) && !text_only) write_whole(state, base, options);
  follow_stores(state, decoder.vocab_size, any_tokenizer, options);
  warn_of_tokens_without_rows(options.tokenizer_folder, decoder.vocab_size);
  export_model(out, decoder, checkpoint_parameters(checkpoint), options);
  print_result(fmt::format("{}: step {} of {}, {}{}\n", out, state.step, checkpoint, dtype,
                           options.tokenizer_folder.empty() && options.whole_folder.empty()
                               ? ", without a tokenizer (--tokenizer DIR copies one)"
                               : ""));
  return 0;
}

}  // namespace packtrain
