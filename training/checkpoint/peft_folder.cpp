#include "training/checkpoint/peft_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/safetensors.h"
#include "models/adapters/adapter_weights.h"
#include "models/adapters/lora_targets.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/hf_files.h"
#include "training/checkpoint/hf_weights.h"
#include "training/checkpoint/peft_config.h"
#include "training/checkpoint/peft_targets.h"
#include "training/checkpoint/temporary_folder.h"

namespace packtrain {
namespace {

constexpr const char* kSavedEmbedding = "embed.weight";
constexpr const char* kSavedHead = "base_model.model.lm_head.weight";
constexpr const char* kAnotherBase =
    "The adapter may be of another model, or its files do not belong together.";

using File = std::shared_ptr<const SafetensorsFile>;

File open_weights(const std::string& folder) {
  const std::string path = folder + "/" + kPeftWeightsName;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    return SafetensorsFile::open(path, ErrorCategory::kCheckpoint);
  }
  const bool has_pickle =
      std::filesystem::exists(std::filesystem::path(folder) / "adapter_model.bin", ignored);
  throw Error(ErrorCategory::kConfig, fmt::format("{}: no such file", path),
              has_pickle ? "adapter_model.bin is not read: save the adapter as safetensors."
                         : "adapter.path must be a folder that PEFT's save_pretrained wrote.");
}

// The embedding is trained whole, and the head with it.
bool has_tied_head(const DecoderConfig& config) {
  return config.tied_embeddings && config.adapter->trained.contains(kSavedEmbedding);
}

void check_tying(const PeftConfig& peft, const DecoderConfig& config, const std::string& path) {
  if (peft.ensure_weight_tying || !has_tied_head(config)) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("{}: 'modules_to_save' has the embedding, which is the head too, and "
                          "'ensure_weight_tying' is false",
                          path),
              "PEFT then trains an embedding that is no longer the head. packtrain trains both as "
              "one: set ensure_weight_tying to true.");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void check_tensor(const SafetensorsFile& file, const WeightPiece& piece) {
  const auto found = file.tensors().find(piece.hf_name);
  if (found == file.tensors().end()) {
    fail_at(file.path(), fmt::format("has no tensor '{}'", piece.hf_name), kAnotherBase);
  }
  const TensorView& tensor = found->second;
  if (tensor.shape != piece.hf_shape) {
    fail_at(file.path(),
            fmt::format("tensor '{}' has shape {}, want {}", piece.hf_name,
                        shape_text(tensor.shape), shape_text(piece.hf_shape)),
            kAnotherBase);
  }
  const bool is_float = tensor.dtype == DataType::kFloat32 || tensor.dtype == DataType::kFloat16 ||
                        tensor.dtype == DataType::kBFloat16;
  if (is_float) return;
  fail_at(file.path(),
          fmt::format("tensor '{}' is not float32, float16 or bfloat16", piece.hf_name),
          "Save the adapter in one of these types.");
}

// PEFT writes a head that is tied to a saved embedding as a second tensor.
std::vector<WeightPiece> stored_weights(const DecoderConfig& config) {
  std::vector<WeightPiece> pieces = adapter_weights(config);
  if (!has_tied_head(config)) return pieces;
  std::vector<WeightPiece> head;
  std::ranges::copy_if(pieces, std::back_inserter(head),
                       [](const WeightPiece& piece) { return piece.parameter == kSavedEmbedding; });
  for (WeightPiece& piece : head) {
    piece.hf_name = kSavedHead;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// PEFT saves embedding and head of the model with their adapters. The model's own are used.
bool is_copy_of_base(const std::string& name, const AdapterTargets& adapter) {
  for (const char* weight : {kSavedEmbedding, "head.weight"}) {
    const LoraModules* modules = adapter.find(weight);
    if (modules == nullptr) continue;
    if (name.starts_with(kPeftPrefix + modules->front().name + ".base_layer.")) return true;
  }
  return false;
}

void check_head(const SafetensorsFile& file, const std::vector<WeightPiece>& pieces) {
  const std::string& name =
      std::ranges::find(pieces, kSavedEmbedding, &WeightPiece::parameter)->hf_name;
  const TensorView& embedding = file.tensor(name);
  const TensorView& head = file.tensor(kSavedHead);
  if (head.dtype == embedding.dtype && std::ranges::equal(head.data, embedding.data)) return;
  fail_at(file.path(),
          fmt::format("tensor '{}' is not '{}', which it is tied to", kSavedHead, name),
          "Train the embedding with ensure_weight_tying.");
}

// The file has the tensors of the pieces and no others.
void check_tensors(const SafetensorsFile& file, const DecoderConfig& config) {
  const std::vector<WeightPiece> pieces = stored_weights(config);
  std::set<std::string> used;
  for (const WeightPiece& piece : pieces) {
    if (used.insert(piece.hf_name).second) check_tensor(file, piece);
  }
  for (const auto& [name, tensor] : file.tensors()) {
    if (used.contains(name)) continue;
    if (is_copy_of_base(name, *config.adapter)) continue;
    fail_at(file.path(),
            fmt::format("tensor '{}' belongs to no module of the model that {} names", name,
                        kPeftConfigName),
            kAnotherBase);
  }
  if (has_tied_head(config)) check_head(file, pieces);
}

// Errors of the options name the file that they are from.
AdapterTargets find_targets(const DecoderConfig& base, const LoraOptions& options,
                            const std::string& path) {
  try {
    return find_lora_targets(base, options);
  } catch (const Error& error) {
    if (error.category() != ErrorCategory::kConfig) throw;
    throw Error(ErrorCategory::kConfig, fmt::format("{}: {}", path, error.message()),
                error.advice());
  }
}

}  // namespace

bool is_peft_folder(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / kPeftConfigName, ignored);
}

LoraOptions read_peft_options(const std::string& folder, const DecoderConfig& base) {
  const std::string path = folder + "/" + kPeftConfigName;
  const PeftConfig config =
      parse_peft_config(read_text(path, ErrorCategory::kConfig, kMaxJsonBytes), path);
  const File file = open_weights(folder);
  const LoraOptions options = peft_options(config, *file, base, path);
  if (options.targets.empty() && options.save.empty()) {
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("{}: 'target_modules' names no module of the model ({})", path, base.family),
        "The adapter is of another model.");
  }
  DecoderConfig with_adapter = base;
  with_adapter.adapter = std::make_shared<const AdapterTargets>(find_targets(base, options, path));
  check_tying(config, with_adapter, path);
  check_tensors(*file, with_adapter);
  return options;
}

void read_peft_weights(const std::string& folder, const DecoderConfig& config,
                       std::span<const ShardView> shards) {
  const File file = open_weights(folder);
  check_tensors(*file, config);
  const std::vector<WeightPiece> pieces = adapter_weights(config);
  std::map<std::string, HfTensor> tensors;
  for (const auto& [name, view] : file->tensors()) tensors[name] = {file, &view};
  std::set<std::string> parameters;
  for (const WeightPiece& piece : pieces) parameters.insert(piece.parameter);
  std::vector<ShardView> of_adapter;
  std::ranges::copy_if(shards, std::back_inserter(of_adapter), [&](const ShardView& shard) {
    return parameters.contains(shard.parameter);
  });
  read_hf_weights({tensors, {}, {}}, pieces, of_adapter);
  file->check_unchanged();
}

void write_peft_folder(const std::string& folder, const DecoderConfig& config,
                       const LoraOptions& options, const ParameterSource& source,
                       const PeftExport& how) {
  const std::string text = peft_config_text(config, options, how.base_model);
  TemporaryFolder temporary(folder);
  write_hf_file(temporary.path() + "/" + kPeftConfigName, std::as_bytes(std::span(text)));
  write_hf_tensors(temporary.path() + "/" + kPeftWeightsName, stored_weights(config), source,
                   how.bfloat16);
  temporary.commit();
}

}  // namespace packtrain
