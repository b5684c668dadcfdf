// One memory-mapped shard file of a token store. Values are checked when they are requested.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/safetensors.h"
#include "framework/data/store_format.h"

namespace packtrain {

// The tensors of a shard file (token_store.h).
struct ShardColumns {
  std::span<const std::int64_t> offsets;
  std::span<const std::int32_t> input_ids;
  std::span<const std::int32_t> num_loss_tokens;
  std::span<const std::int16_t> source;
  std::span<const std::uint8_t> loss_mask;
  std::span<const std::int64_t> group_offsets = {};  // empty without groups
  std::span<const std::uint8_t> group_role = {};
  std::span<const float> margin = {};
  std::vector<std::span<const float>> token_columns = {};
};

// Computes the entry of store.json for a shard. Reads the whole shard.
StoreShard describe_shard(const ShardColumns& columns);

// All functions except the constructor and check_all() take time proportional to the size of their
// result. They throw Error(kData) with file, example and token when the data is damaged.
class MappedShard {
 public:
  // Maps `path` and compares its header and the first and last offset with `shard`.
  // `first_example`: index of the shard's first example in the store, used in messages. `shard` and
  // `info` must outlive it. Throws Error(kData).
  MappedShard(const std::string& path, const StoreShard& shard, const StoreInfo& info,
              std::int64_t first_example);

  std::int64_t first_example() const { return first_example_; }
  std::int64_t num_examples() const { return std::ssize(columns_.num_loss_tokens); }

  // Length of the shard's example `local`, 0..num_examples-1, in tokens.
  std::int32_t length(std::int64_t local) const {
    const std::int64_t begin = columns_.offsets[local];
    const std::int64_t end = columns_.offsets[local + 1];
    if (begin < 0 || begin >= end || end > shard_.num_tokens) fail_offsets(local);
    const std::int64_t length = end - begin;
    if (length < lengths_.least || length > lengths_.most) fail_offsets(local);
    return static_cast<std::int32_t>(length);
  }
  // Lengths of the examples from `first` on, in a loop that compilers vectorize.
  void copy_lengths(std::int64_t first, std::span<std::int32_t> lengths) const;
  std::int32_t num_loss_tokens(std::int64_t local) const {
    const std::int32_t labels = columns_.num_loss_tokens[local];
    if (labels < labels_.least || labels > labels_.most) fail_labels(local);
    return labels;
  }
  std::span<const std::int32_t> input_ids(std::int64_t local) const {
    const auto size = static_cast<std::size_t>(length(local));
    return columns_.input_ids.subspan(columns_.offsets[local], size);
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t local) const {
    const auto size = static_cast<std::size_t>(length(local));
    return columns_.loss_mask.subspan(columns_.offsets[local], size);
  }
  std::int16_t source(std::int64_t local) const;
  // Of a store with groups: the group with this number in the shard, and the number of the group
  // that has an example.
  ExampleGroup group(std::int64_t local) const;
  std::int64_t group_of(std::int64_t local_example) const;
  GroupRole role(std::int64_t local_example) const;
  std::span<const float> token_column(std::int64_t local, std::size_t column) const {
    const auto size = static_cast<std::size_t>(length(local));
    return columns_.token_columns[column].subspan(columns_.offsets[local], size);
  }
  void prefetch(std::int64_t local) const {
    __builtin_prefetch(&columns_.offsets[local]);
    __builtin_prefetch(&columns_.num_loss_tokens[local]);
  }

  // Checks ids and mask bytes of the tokens `begin` to `end` - 1 that exist, and the source of the
  // example. Checks the number of labels as well when these are all its tokens.
  void check_tokens(std::int64_t local, std::int64_t begin, std::int64_t end) const;
  // Checks every byte, and that the shard matches store.json.
  void check_all() const;
  void check_unchanged() const { file_->check_unchanged(); }
  std::vector<std::int64_t> mask_byte_counts() const;  // by byte; computed when store.json has none

 private:
  template <typename T>
  std::span<const T> column(const char* name, DataType dtype, std::int64_t size) const;
  [[noreturn]] void fail(const std::string& fault) const;
  [[noreturn]] void fail_offsets(std::int64_t local) const;
  [[noreturn]] void fail_labels(std::int64_t local) const;
  void check_ends() const;
  void check_ids(std::int64_t local, std::int64_t begin, std::int64_t end) const;
  void check_mask(std::int64_t local, std::int64_t begin, std::int64_t end) const;
  void check_token_columns(std::int64_t local, std::int64_t begin, std::int64_t end) const;
  ShardColumns map_columns() const;

  std::shared_ptr<const SafetensorsFile> file_;
  const StoreShard& shard_;
  const StoreInfo& info_;
  std::int64_t first_example_;
  ShardColumns columns_;
  CountBounds lengths_;  // of store.json, else of the type
  CountBounds labels_;
};

}  // namespace packtrain
