// Writes a token store example by example. The store can be larger than memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

struct ExampleToWrite {
  std::span<const std::int32_t> input_ids;
  std::span<const std::uint8_t> loss_mask;
  std::int16_t source = 0;
  std::vector<std::span<const float>> token_columns = {};  // one for each of info.token_columns
};

struct GroupMember {
  ExampleToWrite example;
  GroupRole role = GroupRole::kChosen;
};

class StoreWriter {
 public:
  static constexpr std::int64_t kMaxShardTokens = std::int64_t{1} << 26U;

  // `info` has tokenizer, vocab_size, sources, loss_weights, token_columns, and the kind of groups.
  // finish() fills in the counts. A shard file is written once it has `max_shard_tokens` tokens,
  // which bounds memory (about 5 bytes a token). No shard divides a group. `overwrite` replaces a
  // store, or the files of an incomplete one. Throws Error(kData) when the folder exists and is not
  // empty, or with `overwrite` when it has other files. Throws Error(kConfig) for a vocab_size not
  // in 1..2^31-1.
  static std::unique_ptr<StoreWriter> create(const std::string& folder, const StoreInfo& info,
                                             bool overwrite,
                                             std::int64_t max_shard_tokens = kMaxShardTokens);
  virtual ~StoreWriter() = default;

  // Adds an example of a store without groups. Throws Error(kData) for an id outside the
  // vocabulary, or a mask byte without a weight. Throws it too for different lengths of ids, mask
  // and columns, and for a value that is not finite.
  virtual void add(const ExampleToWrite& example) = 0;
  void add(std::span<const std::int32_t> input_ids, std::span<const std::uint8_t> loss_mask,
           std::int16_t source) {
    add(ExampleToWrite{input_ids, loss_mask, source});
  }
  // Adds a group of a store with groups. `margin`: given if and only if the store has margins.
  // Throws Error(kData) too for roles that are not those of the kind.
  virtual void add_group(std::span<const GroupMember> members, std::optional<float> margin) = 0;
  // Syncs all files and writes store.json last. A folder without it is not a store.
  // `num_bad_lines`: lines of the sources that were skipped.
  virtual StoreInfo finish(std::int64_t num_bad_lines = 0) = 0;
};

}  // namespace packtrain
