// Import and export of Hugging Face folders: config.json, model*.safetensors (+ index), tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/families/family.h"
#include "models/layers/decoder_config.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

struct ImportOptions {
  std::string prefix;    // removed from the names of all tensors
  bool is_part = false;  // the text model of a multimodal folder: other tensors are skipped
};

// Fills `shards[i].weight` from the folder's memory-mapped safetensors (float32, float16 or
// bfloat16). Only the owned ranges are read. `config` is that of the folder. The embedding and head
// of a shard can have more rows when the vocabulary is resized. New rows are the mean of all stored
// rows, the same on every rank.
// Throws Error(kConfig) when the folder has no weights. Throws Error(kCheckpoint) with the tensor's
// name when it is missing, has another shape, is not used by any parameter, or has a non-finite
// weight.
void import_weights(const std::string& folder, const DecoderConfig& config,
                    std::span<const ShardView> shards, const ImportOptions& options = {});

// Source of whole parameters for export: float32 or bfloat16 CPU tensor of parameter `name`.
using ParameterSource = std::function<at::Tensor(const std::string& name)>;

struct ExportOptions {
  bool bfloat16 = true;  // false: float32
  // A Hugging Face folder of the model, or empty. Each tensor has the type that it has there, and
  // config.json names that folder's type. `bfloat16` is not read then.
  std::string types_folder;
  std::int64_t max_shard_bytes = 5'000'000'000;
  std::string tokenizer_folder;  // its files are copied; may be empty
  std::string model_config;      // config.json text of the source, for its token ids; may be empty
  std::vector<std::int64_t> end_tokens;  // further tokens that end a text in the training data
  std::string chat_template;             // written to the tokenizer's files; may be empty
  // The multimodal folder of which this is the text model, or empty. Its other tensors are copied,
  // its config.json is `model_config`, and the processor's files are copied.
  std::string whole_folder;
  std::string prefix;  // of the tensors in whole_folder (ImportOptions)
};

// True when the folder has a tokenizer that export_model() would copy.
bool has_tokenizer(const std::string& folder);

// Writes a folder that `transformers` loads, with config.json, weights and tokenizer files. A
// safetensors shard has at most max_shard_bytes. Several shards have an index. config.json is that
// of the family or of the multimodal model. The folder is written as `folder`.tmp, synced, and
// renamed. Throws Error(kCheckpoint) when `folder` exists, the tokenizer's folder has no tokenizer,
// or a write fails. It also throws where a weight
// is beyond the range of float16.
void export_model(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& source, const ExportOptions& options);

// Parameters of a training checkpoint, read from its shard files one at a time.
ParameterSource checkpoint_parameters(const std::string& checkpoint_folder);

}  // namespace packtrain
