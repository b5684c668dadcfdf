// Writing a token store, one example after another, through files larger than memory.
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

  // `info` gives tokenizer, vocab_size, sources and loss_weights; counts are filled in by finish().
  // Throws Error(kData) when the folder exists and is not empty; `overwrite` replaces a store, or
  // what is left of one, but nothing else. A shard file is closed once it has `max_shard_tokens`,
  // so memory is bounded by that (about 5 bytes a token). Error(kConfig): vocab_size not in
  // 1..2^31-1.
  static std::unique_ptr<StoreWriter> create(const std::string& folder, const StoreInfo& info,
                                             bool overwrite,
                                             std::int64_t max_shard_tokens = kMaxShardTokens);
  virtual ~StoreWriter() = default;

  // Throws Error(kData) for an id outside the vocabulary, a mask byte without a weight, or ids and
  // mask of different lengths.
  virtual void add(std::span<const std::int32_t> input_ids, std::span<const std::uint8_t> loss_mask,
                   std::int16_t source) = 0;
  // Syncs everything and writes store.json last. Without it the folder is no store.
  // `num_bad_lines`: of the sources, that were left out.
  virtual StoreInfo finish(std::int64_t num_bad_lines = 0) = 0;
};

}  // namespace packtrain
