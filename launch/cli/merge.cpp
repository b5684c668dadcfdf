// packtrain merge: adds an adapter to its model. One process, no job.
#include <fmt/format.h>

#include <string>

#include "framework/core/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/export_rounding.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "models/families/text_part.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/hugging_face.h"
#include "training/setup/merged_model.h"
#include "training/setup/saved_config.h"

namespace packtrain {
namespace {

struct Request {
  Config config;
  std::string out;
  std::string dtype;  // empty: each tensor has the type that it has in the model
  ExportOptions options;
};

void add_options(CLI::App& app, Request& request) {
  app.add_option("MODEL", request.config.model.path,
                 "Hugging Face folder of the model, or hf:OWNER/NAME[@REVISION]")
      ->required();
  app.add_option("ADAPTER", request.config.adapter.path,
                 "PEFT folder, or a checkpoint of a run that trained an adapter")
      ->required();
  app.add_option("--out", request.out, "folder to make")->required()->type_name("DIR");
  app.add_option("--dtype", request.dtype, "of the weights written (default: each as in MODEL)")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--tokenizer", request.options.tokenizer_folder,
                 "folder whose tokenizer files to copy (default: MODEL, if it has one)")
      ->type_name("DIR");
  app.add_option("--max-shard-size", request.options.max_shard_bytes,
                 "of a file: like 5GB, 500MB (default 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true))
      ->check(positive_number());
  app.footer(
      "The sum W + scale B A is computed in float32 and rounded once. With DoRA its rows get the "
      "adapter's magnitudes before.\nExample:\n"
      "  packtrain merge models/Llama-3.2-1B adapters/mine --out models/merged");
}

// A checkpoint says over which weights its adapter was trained; a PEFT folder does not. Returns the
// configuration that says how these were stored: the run's, or `config`.
Config check_checkpoint_base(const ModelSource& source, const Config& config) {
  if (source.adapter->kind != AdapterSource::Kind::kCheckpoint) return config;
  const TrainingState state = read_checkpoint_state(source.adapter->folder);
  Config of_run = config_of_run(state);
  check_base(source, state.seed, state.base_digest, of_run);
  if (of_run.model.base != BaseStorage::kBFloat16) {
    log_info("{}: the adapter is added to the decoded {} weights that it was trained over",
             source.adapter->folder, of_run.model.base == BaseStorage::kNf4 ? "NF4" : "8-bit");
  }
  return of_run;
}

// Returns the types' name for the last line. A checkpoint as MODEL has the type of its run.
std::string choose_types(const ModelSource& source, Request& request) {
  std::string dtype = request.dtype;
  if (dtype.empty() && source.kind == ModelSource::Kind::kHuggingFace) {
    request.options.types_folder = source.folder;
    return "in the data types of the model";
  }
  if (dtype.empty()) dtype = dtype_of_run(read_checkpoint_state(source.folder));
  request.options.bfloat16 = dtype == "bfloat16";
  return dtype;
}

}  // namespace

int run_merge(int argc, char** argv) {
  CLI::App app("Adds an adapter to its model and writes a Hugging Face folder.", "packtrain merge");
  Request request;
  add_options(app, request);
  if (!parse_arguments(app, argc, argv)) return 0;
  request.config.model.path = folder_of_model(request.config.model.path);
  const std::string& model = request.config.model.path;
  const ModelSource source = find_model(request.config);
  const Config stored = check_checkpoint_base(source, request.config);
  ExportOptions& options = request.options;
  const std::string dtype = choose_types(source, request);
  options.model_config = source.config_json;
  if (has_text_part(source.config_json)) options.whole_folder = model;
  if (options.tokenizer_folder.empty() && has_tokenizer(model)) options.tokenizer_folder = model;
  export_model(request.out, without_adapter(source.decoder), merged_parameters(source, 0, stored),
               options);
  print_result(fmt::format("{}: {} with {} added, {}\n", request.out, model,
                           request.config.adapter.path, dtype));
  return 0;
}

}  // namespace packtrain
