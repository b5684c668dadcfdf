#include "framework/data/token_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include "framework/data/store_format.h"
#include "framework/data/store_shard.h"
#include "framework/support/error.h"
#include "framework/support/hash.h"

namespace packtrain {
namespace {

class MappedStore final : public TokenStore {
 public:
  MappedStore(std::string folder, const StoreManifest& manifest);

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  std::span<const std::int32_t> lengths() const override { return lengths_; }
  std::span<const std::int32_t> num_loss_tokens() const override { return num_loss_tokens_; }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override {
    const MappedShard& shard = shard_of(example);
    return shard.input_ids(example - shard.first_example());
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override {
    const MappedShard& shard = shard_of(example);
    return shard.loss_mask(example - shard.first_example());
  }
  std::int16_t source(std::int64_t example) const override {
    const MappedShard& shard = shard_of(example);
    return shard.source(example - shard.first_example());
  }
  void check_unchanged(std::int64_t example) const override;
  std::string fingerprint() const override;
  TokenWeights token_weights(std::int64_t /*example*/) const override { return info_.loss_weights; }
  bool has_token_weights() const override { return !info_.loss_weights.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  const MappedShard& shard_of(std::int64_t example) const;
  std::array<std::int64_t, kMaxTokenWeights> mask_byte_counts() const;

  std::string folder_;
  StoreInfo info_;
  std::vector<MappedShard> shards_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> num_loss_tokens_;
  mutable std::mutex mutex_;
  mutable std::vector<Clock::time_point> checked_at_;  // by shard
};

MappedStore::MappedStore(std::string folder, const StoreManifest& manifest)
    : folder_(std::move(folder)), info_(manifest.info) {
  std::int64_t num_loss_tokens = 0;
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    const MappedShard& shard =
        shards_.emplace_back(folder_ + "/" + shard_name(i), manifest.shards[i], info_,
                             static_cast<std::int64_t>(lengths_.size()));
    for (std::int64_t local = 0; local < shard.num_examples(); ++local) {
      lengths_.push_back(static_cast<std::int32_t>(shard.length(local)));
      num_loss_tokens_.push_back(shard.num_loss_tokens()[local]);
      num_loss_tokens += num_loss_tokens_.back();
    }
  }
  checked_at_.assign(shards_.size(), Clock::now() - std::chrono::hours(1));
  if (num_loss_tokens != info_.num_loss_tokens) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}/{}: 'num_loss_tokens' is {}, but the examples have {}", folder_,
                            kStoreManifestName, info_.num_loss_tokens, num_loss_tokens),
                "Make the store again with `packtrain prepare`.");
  }
}

const MappedShard& MappedStore::shard_of(std::int64_t example) const {
  if (example < 0 || example >= info_.num_examples) {
    throw Error(ErrorCategory::kInternal, fmt::format("{}: asked for example {} of {}", folder_,
                                                      example, info_.num_examples));
  }
  const auto after = std::upper_bound(
      shards_.begin(), shards_.end(), example,
      [](std::int64_t value, const MappedShard& shard) { return value < shard.first_example(); });
  return *std::prev(after);
}

void MappedStore::check_unchanged(std::int64_t example) const {
  constexpr std::chrono::seconds kEvery{1};
  const MappedShard& shard = shard_of(example);
  {
    const std::lock_guard lock(mutex_);
    Clock::time_point& checked_at = checked_at_[static_cast<std::size_t>(&shard - shards_.data())];
    const auto now = Clock::now();
    if (now - checked_at < kEvery) return;
    checked_at = now;
  }
  shard.check_unchanged();
}

std::array<std::int64_t, kMaxTokenWeights> MappedStore::mask_byte_counts() const {
  std::array<std::int64_t, kMaxTokenWeights> counts{};
  for (const MappedShard& shard : shards_) {
    for (const std::uint8_t byte : shard.all_masks()) ++counts[byte];
  }
  return counts;
}

std::string MappedStore::fingerprint() const {
  const std::array<std::int64_t, 4> counts{info_.vocab_size, info_.num_examples, info_.num_tokens,
                                           info_.num_loss_tokens};
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(counts)));
  hasher.update(std::as_bytes(std::span(lengths_)));
  if (has_token_weights()) {
    hasher.update(std::as_bytes(std::span(info_.loss_weights)));
    const auto used = mask_byte_counts();
    hasher.update(std::as_bytes(std::span(used)));
  }
  return hasher.hex();
}

}  // namespace

std::unique_ptr<TokenStore> TokenStore::open(const std::string& folder) {
  return std::make_unique<MappedStore>(folder, read_store_manifest(folder));
}

}  // namespace packtrain
