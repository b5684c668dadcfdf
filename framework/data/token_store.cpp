#include "framework/data/token_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/data/shard_set.h"
#include "framework/data/store_format.h"

namespace packtrain {
namespace {

// Bounds over all shards, when store.json has bounds for each.
std::optional<CountBounds> bounds_of(const StoreManifest& manifest,
                                     std::optional<CountBounds> StoreShard::* member) {
  std::optional<CountBounds> bounds;
  for (const StoreShard& shard : manifest.shards) {
    const auto& of_shard = shard.*member;
    if (!of_shard) return {};
    if (!bounds) bounds = of_shard;
    bounds = CountBounds{std::min(bounds->least, of_shard->least),
                         std::max(bounds->most, of_shard->most)};
  }
  return bounds;
}

template <auto CountOf>
class ShardCounts final : public CountSource {
 public:
  ShardCounts(const ShardSet& shards, std::int64_t num_examples, std::optional<CountBounds> bounds)
      : shards_(shards), num_examples_(num_examples), bounds_(bounds) {}

  std::size_t size() const override { return static_cast<std::size_t>(num_examples_); }
  std::int32_t count(std::size_t example) const override {
    const MappedShard& shard = shards_.of(static_cast<std::int64_t>(example));
    return (shard.*CountOf)(static_cast<std::int64_t>(example) - shard.first_example());
  }
  void prefetch(std::size_t example) const override {
    shards_.prefetch(static_cast<std::int64_t>(example));
  }
  std::optional<CountBounds> bounds() const override { return bounds_; }

 private:
  const ShardSet& shards_;
  std::int64_t num_examples_;
  std::optional<CountBounds> bounds_;
};

// Groups of the shards, numbered over all of them.
class ShardGroups final : public ExampleGroups {
 public:
  ShardGroups(const ShardSet& shards, const StoreInfo& info) : shards_(shards), info_(info) {}

  ExampleGroup group(std::int64_t number) const override {
    check(number, info_.groups->num_groups);
    const std::size_t shard = shards_.number_of_group(number);
    return shards_.shard(shard).group(number - shards_.first_group(shard));
  }
  std::int64_t group_of(std::int64_t example) const override {
    check(example, info_.num_examples);
    const std::size_t number = shards_.number_of(example);
    const MappedShard& shard = shards_.shard(number);
    return shards_.first_group(number) + shard.group_of(example - shard.first_example());
  }
  GroupRole role(std::int64_t example) const override {
    check(example, info_.num_examples);
    const MappedShard& shard = shards_.of(example);
    return shard.role(example - shard.first_example());
  }

 private:
  static void check(std::int64_t number, std::int64_t count) {
    if (number >= 0 && number < count) return;
    throw Error(ErrorCategory::kInternal,
                fmt::format("asked for group or example {} of {}", number, count));
  }

  const ShardSet& shards_;
  const StoreInfo& info_;
};

class MappedStore final : public TokenStore {
 public:
  MappedStore(std::string folder, StoreManifest manifest);

  const StoreInfo& info() const override { return manifest_.info; }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return lengths_; }
  ExampleCounts num_loss_tokens() const override { return num_loss_tokens_; }
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
  void check_tokens(std::int64_t example, std::int64_t begin, std::int64_t end) const override;
  void check_all(std::size_t part, std::size_t num_parts) const override;
  std::string fingerprint() const override;
  void keep_fingerprint(const std::string& found) const override;
  std::string content_digest() const override;
  TokenWeights token_weights(std::int64_t /*example*/) const override {
    return manifest_.info.loss_weights;
  }
  bool has_token_weights() const override { return !manifest_.info.loss_weights.empty(); }
  const ExampleGroups* groups() const override {
    return manifest_.info.groups ? &groups_ : nullptr;
  }
  std::span<const float> token_column(std::int64_t example, std::size_t column) const override;

 private:
  using Clock = std::chrono::steady_clock;

  const MappedShard& shard_of(std::int64_t example) const;
  void check_unchanged(const MappedShard& shard, std::size_t number) const;
  std::array<std::int64_t, kMaxTokenWeights> mask_byte_counts() const;
  void update_with_group_sizes(Hasher& hasher) const;
  std::string make_fingerprint() const;

  std::string folder_;
  StoreManifest manifest_;
  ShardSet shards_;
  ShardCounts<&MappedShard::length> lengths_;
  ShardCounts<&MappedShard::num_loss_tokens> num_loss_tokens_;
  ShardGroups groups_;
  mutable std::mutex mutex_;
  mutable std::vector<Clock::time_point> checked_at_;  // by shard
  mutable std::mutex fingerprint_mutex_;
  mutable std::string fingerprint_;  // empty: not computed yet; computing it reads all lengths
};

MappedStore::MappedStore(std::string folder, StoreManifest manifest)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      shards_(folder_, manifest_),
      lengths_(shards_, manifest_.info.num_examples, bounds_of(manifest_, &StoreShard::lengths)),
      num_loss_tokens_(shards_, manifest_.info.num_examples,
                       bounds_of(manifest_, &StoreShard::labels)),
      groups_(shards_, manifest_.info),
      checked_at_(shards_.num_shards(), Clock::now() - std::chrono::hours(1)) {}

const MappedShard& MappedStore::shard_of(std::int64_t example) const {
  if (example < 0 || example >= manifest_.info.num_examples) {
    throw Error(ErrorCategory::kInternal, fmt::format("{}: asked for example {} of {}", folder_,
                                                      example, manifest_.info.num_examples));
  }
  return shards_.of(example);
}

std::span<const float> MappedStore::token_column(std::int64_t example, std::size_t column) const {
  if (column >= manifest_.info.token_columns.size()) {
    return TokenStore::token_column(example, column);
  }
  const MappedShard& shard = shard_of(example);
  return shard.token_column(example - shard.first_example(), column);
}

void MappedStore::check_unchanged(const MappedShard& shard, std::size_t number) const {
  constexpr std::chrono::seconds kEvery{1};
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (now - checked_at_[number] < kEvery) return;
    checked_at_[number] = now;
  }
  shard.check_unchanged();
}

void MappedStore::check_tokens(std::int64_t example, std::int64_t begin, std::int64_t end) const {
  const MappedShard& shard = shard_of(example);
  check_unchanged(shard, shards_.number_of(example));
  shard.check_tokens(example - shard.first_example(), begin, end);
}

void MappedStore::check_all(std::size_t part, std::size_t num_parts) const {
  for (std::size_t number = part; number < shards_.num_shards(); number += num_parts) {
    shards_.shard(number).check_all();
  }
  std::int64_t labels = 0;
  const ExampleCounts counts = num_loss_tokens();
  for (const std::int32_t count : counts) labels += count;
  if (labels == manifest_.info.num_loss_tokens) return;
  throw Error(ErrorCategory::kData,
              fmt::format("{}/{}: 'num_loss_tokens' is {}, but the examples have {}", folder_,
                          kStoreManifestName, manifest_.info.num_loss_tokens, labels),
              "Make the store again with `packtrain prepare`.");
}

std::array<std::int64_t, kMaxTokenWeights> MappedStore::mask_byte_counts() const {
  std::array<std::int64_t, kMaxTokenWeights> counts{};
  for (std::size_t number = 0; number < shards_.num_shards(); ++number) {
    std::vector<std::int64_t> of_shard = manifest_.shards[number].mask_bytes;
    if (of_shard.empty()) of_shard = shards_.shard(number).mask_byte_counts();
    for (std::size_t byte = 0; byte < of_shard.size(); ++byte) counts[byte] += of_shard[byte];
  }
  return counts;
}

// Groups of rollouts have different sizes.
void MappedStore::update_with_group_sizes(Hasher& hasher) const {
  for (std::size_t number = 0; number < shards_.num_shards(); ++number) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t group = 0; group < manifest_.shards[number].num_groups; ++group) {
      sizes.push_back(shards_.shard(number).group(group).num_examples);
    }
    hasher.update(std::as_bytes(std::span(sizes)));
  }
}

std::string MappedStore::make_fingerprint() const {
  constexpr std::int64_t kBlock = 4096;  // examples
  const StoreInfo& info = manifest_.info;
  const std::array<std::int64_t, 4> counts{info.vocab_size, info.num_examples, info.num_tokens,
                                           info.num_loss_tokens};
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(counts)));
  std::vector<std::int32_t> lengths(kBlock);
  for (std::size_t number = 0; number < shards_.num_shards(); ++number) {
    const MappedShard& shard = shards_.shard(number);
    for (std::int64_t first = 0; first < shard.num_examples(); first += kBlock) {
      const auto count = std::min<std::int64_t>(kBlock, shard.num_examples() - first);
      const auto block = std::span(lengths).first(static_cast<std::size_t>(count));
      shard.copy_lengths(first, block);
      hasher.update(std::as_bytes(block));
    }
  }
  if (has_token_weights()) {
    hasher.update(std::as_bytes(std::span(info.loss_weights)));
    const auto used = mask_byte_counts();
    hasher.update(std::as_bytes(std::span(used)));
  }
  if (info.groups) {
    const std::array<std::int64_t, 2> groups{static_cast<std::int64_t>(info.groups->kind),
                                             info.groups->num_groups};
    hasher.update(std::as_bytes(std::span(groups)));
    if (info.groups->kind == GroupKind::kRollouts) update_with_group_sizes(hasher);
  }
  for (const std::string& name : info.token_columns) {
    const std::string line = name + "\n";
    hasher.update(std::as_bytes(std::span(line)));
  }
  return hasher.hex();
}

std::string MappedStore::fingerprint() const {
  const std::lock_guard lock(fingerprint_mutex_);
  if (fingerprint_.empty()) fingerprint_ = make_fingerprint();
  return fingerprint_;
}

void MappedStore::keep_fingerprint(const std::string& found) const {
  const std::lock_guard lock(fingerprint_mutex_);
  fingerprint_ = found;
}

std::string MappedStore::content_digest() const {
  Hasher hasher;
  for (const StoreShard& shard : manifest_.shards) {
    if (shard.digest.empty()) return {};
    const std::string text =
        fmt::format("{} {} {}\n", shard.num_examples, shard.num_tokens, shard.digest);
    hasher.update(std::as_bytes(std::span(text)));
  }
  return hasher.hex();
}

}  // namespace

std::span<const float> TokenStore::token_column(std::int64_t /*example*/,
                                                std::size_t column) const {
  throw Error(ErrorCategory::kInternal,
              fmt::format("{}: has no column of tokens {}", folder(), column));
}

std::unique_ptr<TokenStore> TokenStore::open(const std::string& folder) {
  return std::make_unique<MappedStore>(folder, read_store_manifest(folder));
}

}  // namespace packtrain
