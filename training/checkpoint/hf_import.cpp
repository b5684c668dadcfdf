#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "models/families/family.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/hf_bitsandbytes.h"
#include "training/checkpoint/hf_block_fp8.h"
#include "training/checkpoint/hf_files.h"
#include "training/checkpoint/hf_text_tower.h"
#include "training/checkpoint/hf_weights.h"
#include "training/checkpoint/hugging_face.h"

namespace packtrain {
namespace {

constexpr const char* kHead = "lm_head.weight";

// Causal masks in files of GPT-2 and GPT-NeoX: [1, 1, T, T], and the number that masks.
bool is_causal_mask(const std::string& name, const TensorView& tensor) {
  const bool is_table = tensor.shape.size() == 4;
  return name.ends_with(".attention.masked_bias") || name.ends_with(".attn.masked_bias") ||
         (is_table && (name.ends_with(".attention.bias") || name.ends_with(".attn.bias")));
}

// The number N in "model.layers.N.x", or -1.
std::int64_t layer_of(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t found = name.find(kLayers);
  if (found == std::string::npos) return -1;
  const char* begin = name.data() + found + kLayers.size();
  std::int64_t layer = -1;
  std::from_chars(begin, name.data() + name.size(), layer);
  return layer;
}

// Layers after the last one that predict further tokens (multi-token prediction, arXiv 2412.19437).
// They have a projection of two inputs. They are neither trained nor exported.
std::set<std::int64_t> prediction_layers(const HfTensors& tensors, const DecoderConfig& config) {
  std::set<std::int64_t> layers;
  for (const auto& [name, tensor] : tensors) {
    const std::int64_t layer = layer_of(name);
    if (layer >= config.num_layers && name.ends_with(".eh_proj.weight")) layers.insert(layer);
  }
  return layers;
}

// Tensors that are not parameters: tables computed from the config, and the head of a model with
// tied embeddings. Layers of a family that predict further tokens are left out too.
bool is_ignorable(const std::string& name, const TensorView& tensor, const DecoderConfig& config) {
  if (name.ends_with(".rotary_emb.inv_freq") || is_causal_mask(name, tensor)) return true;
  const Family& family = find_family(config.family);
  const char* predicting = family.prediction_prefix;
  if (predicting != nullptr && name.starts_with(predicting)) return true;
  if (family.leaves_out != nullptr && family.leaves_out(config, name)) return true;
  const std::vector<std::int64_t> head_shape = {config.vocab_size, config.hidden_size};
  return config.tied_embeddings && name == kHead && tensor.shape == head_shape;
}

// The tensors of a folder and the prefixes of their names.
struct Names {
  const std::string& folder;
  const HfTensors& tensors;
  const std::string& prefix;         // model.prefix, removed from the names
  const std::string& family_prefix;  // missing in files that were saved without a head
};

std::int64_t count_with(const HfTensors& tensors, const std::string& prefix) {
  return std::ranges::count_if(
      tensors, [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
}

// The name of a tensor that ends with "." and `wanted`, if any.
std::optional<std::string> name_ending_in(const HfTensors& tensors, const std::string& wanted) {
  const auto found = std::ranges::find_if(
      tensors, [&](const auto& tensor) { return tensor.first.ends_with("." + wanted); });
  return found == tensors.end() ? std::nullopt : std::optional(found->first);
}

// Reports that `wanted` is missing. The cause can be a prefix of all tensors, of some, or no such
// name.
[[noreturn]] void fail_missing(const Names& names, const std::string& wanted) {
  const std::string fault = fmt::format("has no tensor '{}'", wanted);
  std::string end = wanted;
  auto found = name_ending_in(names.tensors, end);
  if (!found && wanted.starts_with(names.family_prefix)) {
    end = wanted.substr(names.family_prefix.size());
    found = name_ending_in(names.tensors, end);
  }
  if (!found)
    fail_at(names.folder, fault, "Its config.json and its weights do not belong together.");
  const std::string prefix = found->substr(0, found->size() - end.size());
  const std::int64_t count = count_with(names.tensors, prefix);
  const std::int64_t all = std::ssize(names.tensors);
  if (count == all) {
    const std::string whole = names.prefix + prefix;
    fail_at(names.folder,
            fault + fmt::format(": all its tensors begin with '{}', as a wrapped model saves them",
                                whole),
            fmt::format("model.prefix: {} removes that.", whole));
  }
  fail_at(
      names.folder,
      fault + fmt::format(", but '{}': {} of its {} tensors begin with '{}'", names.prefix + *found,
                          count, all, names.prefix + prefix),
      "model.prefix removes only what all tensors begin with: save the model unwrapped, or give "
      "these tensors the names of the others.");
}

void check_stored(const Names& names, const StoredTensor& stored) {
  const auto found = names.tensors.find(stored.name);
  if (found == names.tensors.end()) fail_missing(names, stored.name);
  const TensorView& tensor = *found->second.view;
  const std::string& file = found->second.file->path();
  if (tensor.shape != stored.shape) {
    fail_at(file,
            fmt::format("tensor '{}' has shape [{}], want [{}]", stored.name,
                        fmt::join(tensor.shape, ", "), fmt::join(stored.shape, ", ")),
            "Its config.json and its weights do not belong together.");
  }
  const bool is_float = tensor.dtype == DataType::kFloat32 || tensor.dtype == DataType::kFloat16 ||
                        tensor.dtype == DataType::kBFloat16;
  if (!stored.is_code && !is_float) {
    fail_at(
        file, fmt::format("tensor '{}' is not float32, float16 or bfloat16", stored.name),
        "Quantized weights cannot be trained: use the unquantized model, in one of these types.");
  }
  if (stored.is_code && tensor.dtype != DataType::kUInt8) {
    fail_at(file, fmt::format("tensor '{}' is not uint8, as codes of MXFP4 are", stored.name),
            "Download the model again.");
  }
}

// transformers does not tie a stored head that differs from the embedding, even with tied
// embeddings.
void check_stored_head(const HfTensors& tensors, const std::vector<WeightPiece>& pieces,
                       const HfTensor& head) {
  const auto embedding = std::ranges::find(pieces, "embed.weight", &WeightPiece::parameter);
  const TensorView& tied = *tensors.at(embedding->hf_name).view;
  if (tied.dtype == head.view->dtype && std::ranges::equal(tied.data, head.view->data)) return;
  fail_at(head.file->path(),
          fmt::format("tensor '{}' is not '{}', but tie_word_embeddings is true", kHead,
                      embedding->hf_name),
          "Set tie_word_embeddings to false in its config.json, or remove the tensor.");
}

// Checks that every tensor that the model needs exists, and that there are no unknown ones. Every
// rank checks all tensors, so that all fail with the same error.
void check_tensors(const Names& names, const std::vector<WeightPiece>& pieces,
                   const DecoderConfig& config) {
  const HfTensors& tensors = names.tensors;
  const std::set<std::int64_t> predicting = prediction_layers(tensors, config);
  std::set<std::string> used;
  for (const WeightPiece& piece : pieces) {
    for (const StoredTensor& stored : stored_tensors(piece)) {
      check_stored(names, stored);
      used.insert(stored.name);
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (used.contains(name) || predicting.contains(layer_of(name))) continue;
    const bool ignorable = is_ignorable(name, *tensor.view, config);
    if (ignorable && name == kHead) check_stored_head(tensors, pieces, tensor);
    if (ignorable) continue;
    fail_at(tensor.file->path(),
            fmt::format("tensor '{}' belongs to no parameter of the model", name),
            "The model has parts that its config.json does not tell of, or that packtrain does not "
            "know.");
  }
}

// The first layout with all its tensors in the folder, else the one with the fewest missing.
std::vector<WeightPiece> choose_layout(const HfTensors& tensors, const DecoderConfig& config) {
  std::vector<WeightPiece> best;
  std::ptrdiff_t fewest = -1;
  for (auto& layout : weight_layouts(config)) {
    const auto num_missing = std::ranges::count_if(layout, [&](const WeightPiece& piece) {
      return std::ranges::any_of(stored_tensors(piece), [&](const StoredTensor& stored) {
        return !tensors.contains(stored.name);
      });
    });
    if (fewest >= 0 && num_missing >= fewest) continue;
    fewest = num_missing;
    best = std::move(layout);
  }
  return best;
}

}  // namespace

void import_weights(const std::string& folder, const DecoderConfig& config,
                    std::span<const ShardView> shards, const ImportOptions& options) {
  HfTensors tensors = open_hf_tensors(folder);
  if (!options.prefix.empty()) tensors = without_prefix(tensors, options.prefix, folder);
  if (options.is_part) tensors = TextTower(tensors, config, folder).text();
  std::set<const SafetensorsFile*> files;
  for (const auto& [name, tensor] : tensors) files.insert(tensor.file.get());
  const BitsandbytesTensors encoded = take_bitsandbytes_tensors(tensors);
  const BlockFp8Tensors in_blocks = take_block_fp8_tensors(tensors);
  const std::vector<WeightPiece> pieces = choose_layout(tensors, config);
  const std::string family_prefix = find_family(config.family).prefix;
  check_tensors({folder, tensors, options.prefix, family_prefix}, pieces, config);
  read_hf_weights({tensors, encoded, in_blocks}, pieces, shards);
  for (const SafetensorsFile* file : files) file->check_unchanged();
}

}  // namespace packtrain
