#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "framework/checkpoint/hf_files.h"
#include "framework/checkpoint/hf_text_tower.h"
#include "framework/checkpoint/hf_weights.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/support/error.h"

namespace packtrain {
namespace {

constexpr const char* kHead = "lm_head.weight";

[[noreturn]] void fail(const std::string& path, const std::string& fault,
                       const std::string& advice) {
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault), advice);
}

// Tensors that old files hold although they are no parameters: tables computed from the config,
// and the head of a model whose head is its embedding.
bool is_ignorable(const std::string& name, const TensorView& tensor, const DecoderConfig& config) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  const std::vector<std::int64_t> head_shape = {config.vocab_size, config.hidden_size};
  return config.tied_embeddings && name == kHead && tensor.shape == head_shape;
}

// What the names of all tensors begin with before `wanted`, which one of them ends with; or "".
std::string shared_prefix(const HfTensors& tensors, const std::string& wanted) {
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with("." + wanted)) continue;
    const std::string prefix = name.substr(0, name.size() - wanted.size());
    const bool is_shared = std::ranges::all_of(
        tensors, [&](const auto& other) { return other.first.starts_with(prefix); });
    if (is_shared) return prefix;
  }
  return "";
}

void check_stored(const std::string& folder, const HfTensors& tensors, const StoredTensor& stored) {
  const auto found = tensors.find(stored.name);
  if (found == tensors.end()) {
    if (const std::string prefix = shared_prefix(tensors, stored.name); !prefix.empty()) {
      fail(folder,
           fmt::format("has no tensor '{}': all its tensors begin with '{}', as a wrapped model "
                       "saves them",
                       stored.name, prefix),
           fmt::format("model.prefix: {} removes that.", prefix));
    }
    fail(folder, fmt::format("has no tensor '{}'", stored.name),
         "Its config.json and its weights do not belong together.");
  }
  const TensorView& tensor = *found->second.view;
  const std::string& file = found->second.file->path();
  if (tensor.shape != stored.shape) {
    fail(file,
         fmt::format("tensor '{}' has shape [{}], want [{}]", stored.name,
                     fmt::join(tensor.shape, ", "), fmt::join(stored.shape, ", ")),
         "Its config.json and its weights do not belong together.");
  }
  const bool is_float = tensor.dtype == DataType::kFloat32 || tensor.dtype == DataType::kFloat16 ||
                        tensor.dtype == DataType::kBFloat16;
  if (!stored.is_code && !is_float) {
    fail(file, fmt::format("tensor '{}' is not float32, float16 or bfloat16", stored.name),
         "Quantized weights cannot be trained: use the unquantized model, in one of these types.");
  }
  if (stored.is_code && tensor.dtype != DataType::kUInt8) {
    fail(file, fmt::format("tensor '{}' is not uint8, as codes of MXFP4 are", stored.name),
         "Download the model again.");
  }
}

// transformers does not tie a stored head that is another tensor, whatever the config says.
void check_stored_head(const HfTensors& tensors, const std::vector<WeightPiece>& pieces,
                       const HfTensor& head) {
  const auto embedding = std::ranges::find(pieces, "embed.weight", &WeightPiece::parameter);
  const TensorView& tied = *tensors.at(embedding->hf_name).view;
  if (tied.dtype == head.view->dtype && std::ranges::equal(tied.data, head.view->data)) return;
  fail(head.file->path(),
       fmt::format("tensor '{}' is not '{}', but tie_word_embeddings is true", kHead,
                   embedding->hf_name),
       "Set tie_word_embeddings to false in its config.json, or remove the tensor.");
}

// Every tensor the model needs is there, and none that it does not know. Every rank checks all of
// them, so that all fail alike.
void check_tensors(const std::string& folder, const HfTensors& tensors,
                   const std::vector<WeightPiece>& pieces, const DecoderConfig& config) {
  std::set<std::string> used;
  for (const WeightPiece& piece : pieces) {
    for (const StoredTensor& stored : stored_tensors(piece)) {
      check_stored(folder, tensors, stored);
      used.insert(stored.name);
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (used.contains(name)) continue;
    const bool ignorable = is_ignorable(name, *tensor.view, config);
    if (ignorable && name == kHead) check_stored_head(tensors, pieces, tensor);
    if (ignorable) continue;
    fail(tensor.file->path(), fmt::format("tensor '{}' belongs to no parameter of the model", name),
         "The model has parts that its config.json does not tell of, or that packtrain does not "
         "know.");
  }
}

// The first layout that has all its tensors in the folder; else the one that lacks fewest.
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
  const std::vector<WeightPiece> pieces = choose_layout(tensors, config);
  check_tensors(folder, tensors, pieces, config);
  read_hf_weights(tensors, pieces, shards);
  std::set<const SafetensorsFile*> files;
  for (const auto& [name, tensor] : tensors) files.insert(tensor.file.get());
  for (const SafetensorsFile* file : files) file->check_unchanged();
}

}  // namespace packtrain
