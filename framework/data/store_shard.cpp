#include "framework/data/store_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace packtrain {
namespace {

// The largest element. A plain loop over unsigned values, which compilers vectorise.
template <typename T>
T largest(std::span<const T> values) {
  T result = 0;
  for (const T value : values) result = std::max(result, value);
  return result;
}

std::span<const std::uint32_t> as_unsigned(std::span<const std::int32_t> values) {
  return {reinterpret_cast<const std::uint32_t*>(values.data()), values.size()};
}

}  // namespace

MappedShard::MappedShard(const std::string& path, const StoreShard& shard, const StoreInfo& info,
                         std::int64_t first_example)
    : file_(SafetensorsFile::open(path, ErrorCategory::kData)),
      first_example_(first_example),
      input_ids_(column<std::int32_t>("input_ids", DataType::kInt32, shard.num_tokens)),
      offsets_(column<std::int64_t>("offsets", DataType::kInt64, shard.num_examples + 1)),
      loss_mask_(column<std::uint8_t>("loss_mask", DataType::kUInt8, shard.num_tokens)),
      num_loss_tokens_(
          column<std::int32_t>("num_loss_tokens", DataType::kInt32, shard.num_examples)),
      source_(column<std::int16_t>("source", DataType::kInt16, shard.num_examples)) {
  check_offsets();
  check_ids(info.vocab_size);
  check_masks(info.loss_weights);
  check_sources(info.sources.size());
}

void MappedShard::fail(const std::string& fault) const {
  throw Error(ErrorCategory::kData, fmt::format("{}: {}", file_->path(), fault),
              "Make the store again with `packtrain prepare`.");
}

template <typename T>
std::span<const T> MappedShard::column(const char* name, DataType dtype, std::int64_t size) const {
  const TensorView& tensor = file_->tensor(name);
  if (tensor.dtype != dtype || tensor.shape != std::vector<std::int64_t>{size}) {
    fail(fmt::format("tensor '{}' has {} elements or another type, wanted {} of {} bytes", name,
                     tensor.numel(), size, sizeof(T)));
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data.data()) % alignof(T) != 0) {
    fail(fmt::format("tensor '{}' does not begin at a multiple of {} bytes", name, alignof(T)));
  }
  return {reinterpret_cast<const T*>(tensor.data.data()), static_cast<std::size_t>(size)};
}

void MappedShard::check_offsets() const {
  if (offsets_.front() != 0) fail(fmt::format("offsets[0] is {}, wanted 0", offsets_.front()));
  for (std::int64_t local = 0; local < num_examples(); ++local) {
    // Compared before they are subtracted, which could overflow.
    const bool rises = offsets_[local] >= 0 && offsets_[local] < offsets_[local + 1];
    if (!rises || length(local) > std::numeric_limits<std::int32_t>::max()) {
      fail(fmt::format("example {} has offsets {} and {}, wanted 1 to 2^31-1 tokens",
                       first_example_ + local, offsets_[local], offsets_[local + 1]));
    }
  }
  if (offsets_.back() != std::ssize(input_ids_)) {
    fail(fmt::format("the last offset is {}, wanted num_tokens = {}", offsets_.back(),
                     input_ids_.size()));
  }
}

void MappedShard::check_ids(std::int64_t vocab_size) const {
  const auto bound = static_cast<std::uint32_t>(vocab_size);
  const auto ids = as_unsigned(input_ids_);  // a negative id is above every vocabulary
  if (largest(ids) < bound) return;
  const auto token = std::find_if(ids.begin(), ids.end(), [=](auto id) { return id >= bound; });
  const std::int64_t position = token - ids.begin();
  const std::int64_t local =
      std::upper_bound(offsets_.begin(), offsets_.end(), position) - offsets_.begin() - 1;
  fail(fmt::format("example {}, token {}: id {} is outside the vocabulary 0..{}",
                   first_example_ + local, position - offsets_[local], input_ids_[position],
                   vocab_size - 1));
}

void MappedShard::check_masks(const std::vector<double>& loss_weights) const {
  const std::size_t num_bytes = std::max<std::size_t>(loss_weights.size(), 2);
  const bool all_known = largest(loss_mask_) < num_bytes;
  for (std::int64_t local = 0; local < num_examples(); ++local) {
    const auto mask = loss_mask(local);
    if (!all_known) {
      const auto wrong = std::ranges::find_if(mask, [=](auto m) { return m >= num_bytes; });
      if (wrong != mask.end()) {
        fail(fmt::format("example {}, token {}: loss_mask is {}, wanted {}", first_example_ + local,
                         wrong - mask.begin(), *wrong, wanted_mask_bytes(num_bytes)));
      }
    }
    std::int32_t num_loss_tokens = 0;
    for (const std::uint8_t value : mask.subspan(1)) num_loss_tokens += value != 0 ? 1 : 0;
    if (num_loss_tokens != num_loss_tokens_[local]) {
      fail(fmt::format("example {}: num_loss_tokens is {}, but its mask has {}",
                       first_example_ + local, num_loss_tokens_[local], num_loss_tokens));
    }
  }
}

void MappedShard::check_sources(std::size_t num_sources) const {
  for (std::int64_t local = 0; local < num_examples(); ++local) {
    if (source_[local] < 0 || static_cast<std::size_t>(source_[local]) >= num_sources) {
      fail(fmt::format("example {}: source is {}, wanted 0..{}", first_example_ + local,
                       source_[local], num_sources - 1));
    }
  }
}

}  // namespace packtrain
