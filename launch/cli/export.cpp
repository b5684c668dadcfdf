// packtrain export: writes a checkpoint as a Hugging Face folder. One process, no job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/data/tokenizer_tokens.h"
#include "launch/cli/arguments.h"
#include "launch/cli/export_check.h"
#include "launch/cli/export_choice.h"
#include "launch/cli/export_rounding.h"
#include "launch/cli/export_start.h"
#include "launch/cli/export_stores.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "models/adapters/lora_text.h"
#include "models/families/text_part.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/hugging_face.h"
#include "training/checkpoint/peft_difference.h"
#include "training/checkpoint/peft_folder.h"
#include "training/checkpoint/temporary_folder.h"
#include "training/setup/merged_model.h"
#include "training/setup/saved_config.h"

namespace packtrain {
namespace {

// A token without a row in the model makes the program that generates with it fail.
void warn_of_tokens_without_rows(const std::string& tokenizer_folder, std::int64_t vocab_size) {
  const auto text = read_tokenizer(tokenizer_folder);
  const std::int64_t num_tokens = text ? std::ssize(tokens_by_id(*text)) : 0;
  if (num_tokens <= vocab_size) return;
  log_warning(
      "{}: the tokenizer has {} tokens, the model {}: the last {} have no row. Copy the tokenizer "
      "that the data was prepared with, or train with model.resize_vocabulary: {}.",
      tokenizer_folder, num_tokens, vocab_size, num_tokens - vocab_size, num_tokens);
}

// Copies the end tokens and the chat template of the data into `options`.
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

struct Request {
  std::string source;
  std::string out;
  std::string dtype;  // empty: the dtype in which the run computed
  std::string base;
  std::string check;
  std::string adapter;
  bool best = false;
  bool any_tokenizer = false;
  bool text_only = false;
  bool merge = false;
  ExportOptions options;
};

void add_what_is_written(CLI::App& app, Request& request) {
  app.add_option("--dtype", request.dtype, "of the weights written (default: the run's compute)")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--tokenizer", request.options.tokenizer_folder,
                 "folder whose tokenizer files to copy, or hf:OWNER/NAME[@REVISION]")
      ->type_name("DIR");
  app.add_flag("--other-tokenizer", request.any_tokenizer,
               "copy the tokenizer even if it is not that of the run's data");
  app.add_flag("--text-only", request.text_only,
               "of a model of more than text: write the text model alone");
  app.add_option("--adapter", request.adapter, "of several adapters: write this one")
      ->type_name("NAME");
  app.add_flag("--merge", request.merge,
               "of an adapter: write the whole model, with the adapter added to its weights");
  app.add_option("--max-shard-size", request.options.max_shard_bytes,
                 "of a file: like 5GB, 500MB (default 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true))
      ->check(positive_number());
}

void add_options(CLI::App& app, Request& request) {
  app.add_option("SOURCE", request.source, "checkpoint folder, or run folder: its newest")
      ->required();
  app.add_option("--out", request.out, "folder to make")->required()->type_name("DIR");
  app.add_flag("--best", request.best, "of a run: the checkpoint of the lowest validation loss");
  app.add_option("--base", request.base, "the folder of model.path, where it lies elsewhere now")
      ->type_name("DIR");
  app.add_option("--check", request.check, "token store: print the loss of what was written")
      ->type_name("STORE");
  add_what_is_written(app, request);
  app.footer(
      "Example:\n"
      "  packtrain export runs/my --out models/mine --tokenizer models/Llama-3.2-1B");
}

// The adapter of --adapter, or all.
std::vector<LoraOptions> chosen_adapters(const std::string& checkpoint, const TrainingState& state,
                                         const std::string& name) {
  std::vector<LoraOptions> all = parse_lora_list(state.adapter, checkpoint);
  if (name.empty()) return all;
  const auto found = std::ranges::find(all, name, &LoraOptions::name);
  if (found != all.end()) return {*found};
  throw Error(ErrorCategory::kConfig, fmt::format("{} has no adapter '{}'", checkpoint, name),
              "Leave --adapter out to write all of them.");
}

// A PEFT folder, or one for each of several adapters in folders of their names. It needs no weights
// of the model that they were trained over.
void write_adapters(const std::string& checkpoint, const TrainingState& state,
                    const Request& request) {
  const bool narrow = request.dtype == "bfloat16";
  const std::string base = request.base.empty() ? config_of_run(state).model.path : request.base;
  const PeftExport how{.base_model = base, .bfloat16 = narrow};
  const DecoderConfig model = parse_decoder_config(state.model_config);
  const std::vector<LoraOptions> adapters = chosen_adapters(checkpoint, state, request.adapter);
  const auto write = [&](const LoraOptions& options, const std::string& folder) {
    PlainAdapter adapter{with_adapters(model, std::span(&options, 1)),
                         checkpoint_parameters(checkpoint)};
    if (is_pissa(options.initialization)) {
      adapter = over_original_model(adapter.config, adapter.source);
    }
    write_peft_folder(folder, adapter.config, options, adapter.source, how);
  };
  if (adapters.size() == 1) {
    write(adapters.front(), request.out);
  } else {
    TemporaryFolder all(request.out);
    for (const LoraOptions& options : adapters) write(options, all.path() + "/" + options.name);
    all.commit();
  }
  print_result(fmt::format("{}: {} of step {} of {}, {}\n", request.out,
                           adapters.size() == 1
                               ? std::string("adapter")
                               : fmt::format("{} adapters, a folder each,", adapters.size()),
                           state.step, checkpoint, narrow ? "bfloat16" : "float32"));
}

// Of a whole model, or of an adapter's model with the adapter added.
ParameterSource exported_parameters(const std::string& checkpoint, const TrainingState& state,
                                    const Request& request) {
  if (state.adapter.empty()) return checkpoint_parameters(checkpoint);
  Config config = config_of_run(state);
  if (!request.base.empty()) {
    config.model.path = request.base;
    config.model.config.clear();
  }
  ModelSource source = checkpoint_source(checkpoint, config);
  if (has_several_adapters(state.adapter)) {
    source.decoder = only_adapter(source.decoder, request.adapter);
  }
  check_base(source, state.seed, state.base_digest, config);
  return merged_parameters(source, state.seed, config);
}

// Writes `request.out` and reports it.
void write_export(const std::string& checkpoint, const TrainingState& state, Request& request) {
  ExportOptions& options = request.options;
  options.tokenizer_folder = folder_of_model(options.tokenizer_folder);
  const std::string dtype = request.dtype.empty() ? dtype_of_run(state) : request.dtype;
  options.bfloat16 = dtype == "bfloat16";
  options.model_config = state.model_config;
  const DecoderConfig decoder = parse_decoder_config(state.model_config);
  if (has_text_part(state.model_config) && !request.text_only) {
    write_whole(state, request.base, options);
  }
  follow_stores(state, decoder.vocab_size, request.any_tokenizer, options);
  warn_of_tokens_without_rows(options.tokenizer_folder, decoder.vocab_size);
  export_model(request.out, decoder, exported_parameters(checkpoint, state, request), options);
  print_result(fmt::format("{}: step {} of {}, {}{}\n", request.out, state.step, checkpoint, dtype,
                           options.tokenizer_folder.empty() && options.whole_folder.empty()
                               ? ", without a tokenizer (--tokenizer DIR copies one)"
                               : ""));
  const Config of_run = config_of_run(state);
  if (of_run.model.base != BaseStorage::kBFloat16) {
    log_info("{}: weights that the run stored as {} are decoded, not those of the base folder",
             request.out, of_run.model.base == BaseStorage::kNf4 ? "NF4" : "8-bit floats");
  }
  if (options.bfloat16 && state.adapter.empty()) {
    warn_of_rounding(checkpoint, state, request.base);
  }
}

// An adapter alone has neither tokenizer nor loss: options for a whole model are refused.
void check_adapter_request(const CLI::App& app, const Request& request) {
  if (!request.options.tokenizer_folder.empty() || !request.check.empty() || request.text_only) {
    reject_usage(app,
                 "the checkpoint holds an adapter, and --tokenizer, --check and --text-only are "
                 "for a whole model: add --merge");
  }
}

}  // namespace

int run_export(int argc, char** argv) {
  CLI::App app(
      "Writes a checkpoint as a Hugging Face folder that `transformers` loads. An adapter becomes "
      "a "
      "PEFT folder, or with --merge a whole model.",
      "packtrain export");
  Request request;
  add_options(app, request);
  if (!parse_arguments(app, argc, argv)) return 0;
  if (request.out.empty()) reject_usage(app, "--out is empty, wanted the folder to make");
  const std::string checkpoint =
      request.best ? best_checkpoint(request.source) : newest_checkpoint(request.source);
  if (!request.best) log_best_checkpoint(request.source);
  const TrainingState state = read_checkpoint_state(checkpoint);
  if (!state.adapter.empty() && !request.merge) {
    check_adapter_request(app, request);
    write_adapters(checkpoint, state, request);
    return 0;
  }
  if (has_several_adapters(state.adapter) && request.adapter.empty()) {
    reject_usage(app, "the checkpoint holds several adapters: name one of them (--adapter NAME)");
  }
  if (state.adapter.empty() && request.merge) {
    reject_usage(app, "--merge is for adapters, and the checkpoint holds a whole model");
  }
  write_export(checkpoint, state, request);
  return request.check.empty() ? 0 : check_export(request.out, state, request.check);
}

}  // namespace packtrain
