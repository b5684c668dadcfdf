// What the reader and the writer of token stores share: store.json and the names of its files.
// launch/tools/packtrain_tools/prepare/store.py writes the same format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

constexpr int kStoreFormatVersion = 1;
constexpr const char* kStoreManifestName = "store.json";
constexpr const char* kUnfinishedName = "unfinished.json";  // of a `prepare` that was stopped
constexpr const char* kStoreTokenizerFolder = "tokenizer";

// Beside the counts all is optional: stores of older versions have none of it.
struct StoreShard {
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::optional<CountBounds> lengths = std::nullopt;  // tokens of an example
  std::optional<CountBounds> labels = std::nullopt;   // num_loss_tokens of an example
  std::vector<std::int64_t> mask_bytes = {};          // [largest byte + 1] how often each is there
  // BLAKE2b-128 (hex) over offsets, input_ids, num_loss_tokens, source and loss_mask, in this
  // order.
  std::string digest = {};
};

// store.json. Shard i lies in shard_name(i): names never come out of a file.
struct StoreManifest {
  StoreInfo info;
  std::vector<StoreShard> shards;
};

std::string shard_name(std::size_t index);  // "part-00000.safetensors"
bool is_shard_name(const std::string& name);

// "0 or 1", or "0..100": the mask bytes of a store with so many weights (2: without a table).
std::string wanted_mask_bytes(std::size_t num_weights);

std::string manifest_text(const StoreManifest& manifest);
// Reads and checks folder/store.json (keys, types, ranges, sums). Throws Error(kData).
StoreManifest read_store_manifest(const std::string& folder);

}  // namespace packtrain
