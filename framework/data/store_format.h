// store.json and file names, shared by reader and writer.
// launch/python/packtrain_tools/prepare/store.py writes the same format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

inline constexpr std::size_t kMaxSources = std::numeric_limits<std::int16_t>::max();
constexpr int kStoreFormatVersion = 1;
constexpr const char* kStoreManifestName = "store.json";
constexpr const char* kUnfinishedName = "unfinished.json";  // left by an interrupted `prepare`
constexpr const char* kStoreTokenizerFolder = "tokenizer";

// All members except the counts are optional: stores of older versions do not have them.
struct StoreShard {
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::optional<CountBounds> lengths = std::nullopt;  // tokens of an example
  std::optional<CountBounds> labels = std::nullopt;   // num_loss_tokens of an example
  // [largest byte + 1] number of tokens with each mask byte
  std::vector<std::int64_t> mask_bytes = {};
  // BLAKE2b-128 (hex) of offsets, input_ids, num_loss_tokens, source and loss_mask, in this order.
  // Then follow group_offsets, group_role, margin and the columns of tokens that the store has.
  std::string digest = {};
  std::int64_t num_groups = 0;  // of a store with groups
};

// The contents of store.json. Shard i is stored in shard_name(i). Names are never read from a file.
struct StoreManifest {
  StoreInfo info;
  std::vector<StoreShard> shards;
};

std::string shard_name(std::size_t index);  // "part-00000.safetensors"
bool is_shard_name(const std::string& name);
// Log-probabilities of the store by a model (training/evaluation/score_file.h), which `packtrain
// score` keeps in the store: "log-probs-DIGEST.safetensors".
std::string scores_name(const std::string& model_digest);
// True too for NAME.tmp and NAME.part-FIRST-END, of a command that was stopped.
bool is_scores_name(const std::string& name);

// Text for errors: the valid mask bytes, "0 or 1" or "0..100". `num_weights`: entries of the table,
// 2 without a table.
std::string wanted_mask_bytes(std::size_t num_weights);

std::string manifest_text(const StoreManifest& manifest);
// Reads and checks folder/store.json (keys, types, ranges, sums). Throws Error(kData).
StoreManifest read_store_manifest(const std::string& folder);

}  // namespace packtrain
