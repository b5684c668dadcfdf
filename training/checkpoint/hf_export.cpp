#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/mapped_file.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/hf_files.h"
#include "training/checkpoint/hf_special_tokens.h"
#include "training/checkpoint/hf_text_tower.h"
#include "training/checkpoint/hf_types.h"
#include "training/checkpoint/hf_weights.h"
#include "training/checkpoint/hugging_face.h"
#include "training/checkpoint/temporary_folder.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The folder of transformers for all chat templates except the first.
constexpr const char* kTemplatesFolder = "additional_chat_templates";

// Files that are not the tokenizer's: the model's configuration, weights of any format, dot files.
bool belongs_to_model(const std::string& name) {
  if (name == kHfConfigName || name.starts_with('.')) return true;
  static constexpr const char* kEndings[] = {
      ".safetensors", ".index.json", ".bin", ".pt", ".pth", ".gguf", ".h5", ".onnx", ".msgpack"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return name.ends_with(ending); });
}

// Files of which one at least makes a tokenizer. Templates, special tokens and licences are not
// enough.
bool is_tokenizer(const std::string& name) {
  return name.starts_with("tokenizer") || name.starts_with("vocab") || name.ends_with(".model") ||
         name.ends_with(".tiktoken") || name == "tekken.json";
}

constexpr const char* kTokenizerAdvice =
    "--tokenizer wants the folder of the tokenizer that the data was prepared with.";

// The files of `folder`/`part` except the model's, relative to `folder`.
std::vector<std::string> list_files(const std::string& folder, const fs::path& part) {
  const fs::path place = part.empty() ? fs::path(folder) : folder / part;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || belongs_to_model(name)) continue;
    names.push_back(part / name);
  }
  if (error) {
    fail_at(place, fmt::format("cannot list the tokenizer's files: {}", error.message()),
            kTokenizerAdvice);
  }
  return names;
}

std::vector<std::string> tokenizer_files(const std::string& folder) {
  if (folder.empty()) return {};
  std::vector<std::string> names = list_files(folder, "");
  if (std::ranges::none_of(names, is_tokenizer)) {
    fail_at(folder, "has no tokenizer: no tokenizer.json, tokenizer.model, vocab.json or vocab.txt",
            kTokenizerAdvice);
  }
  std::error_code ignored;
  if (fs::is_directory(fs::path(folder) / kTemplatesFolder, ignored)) {
    std::ranges::move(list_files(folder, kTemplatesFolder), std::back_inserter(names));
  }
  return names;
}

void copy_files(const std::string& from, const std::vector<std::string>& names,
                const std::string& to) {
  for (const std::string& name : names) {
    const auto file = MappedFile::open(from + "/" + name, ErrorCategory::kCheckpoint);
    const fs::path target = fs::path(to) / name;
    make_folders(target.parent_path(), ErrorCategory::kCheckpoint);
    fs::remove(target);  // the tokenizer's file replaces the multimodal folder's
    write_hf_file(target, file->bytes());
    sync_folder(target.parent_path(), ErrorCategory::kCheckpoint);
  }
}

// The tensors of the multimodal folder that are not the text model's.
struct Whole {
  HfTensors others;
  std::vector<WeightPiece> pieces;  // of the text model, with the folder's names
};

Whole open_whole(const ExportOptions& options, const DecoderConfig& config) {
  HfTensors tensors = open_hf_tensors(options.whole_folder);
  if (!options.prefix.empty()) {
    tensors = without_prefix(tensors, options.prefix, options.whole_folder);
  }
  const TextTower tower(tensors, config, options.whole_folder);
  Whole whole{tower.others(), weight_layouts(config).front()};
  for (WeightPiece& piece : whole.pieces) piece.hf_name = tower.folder_name(piece.hf_name);
  return whole;
}

// The types of the weights that are written.
HfTypes weight_types(const ExportOptions& options, const std::vector<WeightPiece>& pieces) {
  if (options.types_folder.empty()) {
    return {.of_others = options.bfloat16 ? DataType::kBFloat16 : DataType::kFloat32};
  }
  HfTensors tensors = open_hf_tensors(options.types_folder);
  if (!options.prefix.empty()) {
    tensors = without_prefix(tensors, options.prefix, options.types_folder);
  }
  return types_of(tensors, pieces);
}

// The folder's own dtype where it gives the types. Else the narrowest dtype that holds all tensors
// exactly, because transformers loads all with one dtype.
std::string dtype_of(const ExportOptions& options, const HfTypes& types, const HfTensors& others) {
  if (!options.types_folder.empty()) {
    const std::string own = dtype_of_config(options.model_config);
    return own.empty() ? name_in_config(types.of_others) : own;
  }
  const bool is_narrow = std::ranges::all_of(others, [](const auto& tensor) {
    const DataType type = tensor.second.view->dtype;
    return type != DataType::kFloat32 && type != DataType::kFloat16;
  });
  return options.bfloat16 && is_narrow ? "bfloat16" : "float32";
}

json config_of(const ExportOptions& options, const DecoderConfig& config) {
  if (!options.whole_folder.empty()) {
    json whole = json::parse(options.model_config);
    add_end_tokens_of_whole(whole, options.end_tokens);
    return whole;
  }
  json document = find_family(config.family).write(config);
  document.update(special_token_ids(options.model_config, options.tokenizer_folder));
  document.update(version_of_transformers(options.model_config));
  add_end_tokens(document, options.end_tokens);
  return document;
}

}  // namespace

bool has_tokenizer(const std::string& folder) {
  return std::ranges::any_of(list_files(folder, ""), is_tokenizer);
}

void export_model(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& source, const ExportOptions& options) {
  // All inputs are checked before any file is created.
  const auto names = tokenizer_files(options.tokenizer_folder);
  json document = config_of(options, config);
  const bool is_part = !options.whole_folder.empty();
  const Whole whole =
      is_part ? open_whole(options, config) : Whole{{}, weight_layouts(config).front()};
  const auto other_files =
      is_part ? list_files(options.whole_folder, "") : std::vector<std::string>();
  TemporaryFolder temporary(folder);
  copy_files(options.whole_folder, other_files, temporary.path());
  copy_files(options.tokenizer_folder, names, temporary.path());
  if (!names.empty() || !other_files.empty()) {
    finish_tokenizer(temporary.path(), options.end_tokens, options.chat_template);
  }
  const HfTypes types = weight_types(options, whole.pieces);
  const std::string dtype = dtype_of(options, types, whole.others);
  document["dtype"] = dtype;
  document["torch_dtype"] = dtype;  // the same key before transformers 4.56
  write_hf_json(temporary.path() + "/" + kHfConfigName, document);
  write_hf_weights(temporary.path(), whole.pieces, source, types, options.max_shard_bytes,
                   whole.others);
  temporary.commit();
}

}  // namespace packtrain
