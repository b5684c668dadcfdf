// One shard file of a token store, mapped and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/data/store_format.h"
#include "framework/support/safetensors.h"

namespace packtrain {

class MappedShard {
 public:
  // Maps `path` and checks every value against `shard` and `info`. `first_example` is the index in
  // the store of the shard's first example, which messages count from. Throws Error(kData).
  MappedShard(const std::string& path, const StoreShard& shard, const StoreInfo& info,
              std::int64_t first_example);

  std::int64_t first_example() const { return first_example_; }
  std::int64_t num_examples() const { return std::ssize(num_loss_tokens_); }
  std::int64_t length(std::int64_t local) const { return offsets_[local + 1] - offsets_[local]; }
  std::span<const std::int32_t> num_loss_tokens() const { return num_loss_tokens_; }

  // Of the shard's example `local`, 0..num_examples-1.
  std::span<const std::int32_t> input_ids(std::int64_t local) const {
    return input_ids_.subspan(offsets_[local], length(local));
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t local) const {
    return loss_mask_.subspan(offsets_[local], length(local));
  }
  std::span<const std::uint8_t> all_masks() const { return loss_mask_; }
  std::int16_t source(std::int64_t local) const { return source_[local]; }
  void check_unchanged() const { file_->check_unchanged(); }

 private:
  template <typename T>
  std::span<const T> column(const char* name, DataType dtype, std::int64_t size) const;
  [[noreturn]] void fail(const std::string& fault) const;
  void check_offsets() const;
  void check_ids(std::int64_t vocab_size) const;
  void check_masks(const std::vector<double>& loss_weights) const;
  void check_sources(std::size_t num_sources) const;

  std::shared_ptr<const SafetensorsFile> file_;
  std::int64_t first_example_;
  std::span<const std::int32_t> input_ids_;
  std::span<const std::int64_t> offsets_;
  std::span<const std::uint8_t> loss_mask_;
  std::span<const std::int32_t> num_loss_tokens_;
  std::span<const std::int16_t> source_;
};

}  // namespace packtrain
