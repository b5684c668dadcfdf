// Hugging Face folders in and out: config.json, model*.safetensors (+ index), tokenizer files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/decoder_config.h"
#include "models/families/family.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

struct ImportOptions {
  std::string prefix;    // is removed from the names of all tensors
  bool is_part = false;  // the text model of a folder of more than text: the others are passed over
};

// Fills `shards[i].weight` from the folder's safetensors, memory-mapped: only the ranges owned are
// read, whatever their dtype (float32, float16, bfloat16). `config` is that of the folder; a
// shard's parameter may have more rows (embedding and head, whose vocabulary is resized): they are
// the mean of all stored rows, the same on every rank. Throws Error(kConfig) when the folder has no
// weights, Error(kCheckpoint) naming the tensor when one is missing, has another shape, or the file
// has tensors no parameter uses, or a weight is not finite.
void import_weights(const std::string& folder, const DecoderConfig& config,
                    std::span<const ShardView> shards, const ImportOptions& options = {});

// A source of whole parameters for export: float32 or bfloat16 CPU tensor of parameter `name`.
using ParameterSource = std::function<at::Tensor(const std::string& name)>;

struct ExportOptions {
  bool bfloat16 = true;  // else float32
  std::int64_t max_shard_bytes = 5'000'000'000;
  std::string tokenizer_folder;  // its files are copied; may be empty
  std::string model_config;      // config.json text of the source, for its token ids; may be empty
  std::vector<std::int64_t> end_tokens;  // that end a text too, as the data has it
  std::string chat_template;             // goes into the tokenizer's files; may be empty
  // The folder of more than text whose text model this is (or empty): its other tensors are written
  // as they are, its config.json is `model_config`, and its processor's files are copied.
  std::string whole_folder;
  std::string prefix;  // of its tensors: ImportOptions
};

// Writes a folder that `transformers` loads: config.json (of the family, or of the whole that the
// model is the text model of), safetensors shards of at
// most max_shard_bytes (index file when several), tokenizer files. Written to `folder`.tmp, synced,
// renamed. Throws Error(kCheckpoint) when `folder` exists, the tokenizer's folder has no tokenizer,
// or a write fails.
void export_model(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& source, const ExportOptions& options);

// Parameters of a training checkpoint, assembled from its shard files, one at a time.
ParameterSource checkpoint_parameters(const std::string& checkpoint_folder);

}  // namespace packtrain
