// Writes a token store example by example. The store can be larger than memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/data/token_store.h"

namespace packtrain {

class StoreWriter {
 public:
  static constexpr std::int64_t kMaxShardTokens = std::int64_t{1} << 26U;

  // `info` has tokenizer, vocab_size, sources and loss_weights. finish() fills in the counts. A
  // shard file is written once it has `max_shard_tokens` tokens, which bounds memory (about 5 bytes
  // a token). `overwrite` replaces a store, or the files of an incomplete one.
  // Throws Error(kData) when the folder exists and is not empty, or with `overwrite` when it has
  // other files. Throws Error(kConfig) for a vocab_size not in 1..2^31-1.
  static std::unique_ptr<StoreWriter> create(const std::string& folder, const StoreInfo& info,
                                             bool overwrite,
                                             std::int64_t max_shard_tokens = kMaxShardTokens);
  virtual ~StoreWriter() = default;

  // Throws Error(kData) for an id outside the vocabulary, a mask byte without a weight, or
  // different lengths of ids and mask.
  virtual void add(std::span<const std::int32_t> input_ids, std::span<const std::uint8_t> loss_mask,
                   std::int16_t source) = 0;
  // Syncs all files and writes store.json last. A folder without it is not a store.
  // `num_bad_lines`: lines of the sources that were skipped.
  virtual StoreInfo finish(std::int64_t num_bad_lines = 0) = 0;
};

}  // namespace packtrain
