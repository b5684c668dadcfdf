#include "framework/data/shard_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

// few, because each rank of a run queries a shared file system
constexpr std::size_t kFilesLookedAt = 64;
constexpr std::int64_t kRunsPerShard = 4;

}  // namespace

ShardSet::ShardSet(std::string folder, const StoreManifest& manifest)
    : folder_(std::move(folder)),
      manifest_(manifest),
      mapped_(std::make_unique<std::atomic<const MappedShard*>[]>(manifest.shards.size())),
      owned_(manifest.shards.size()) {
  check_files();
  first_examples_.reserve(num_shards() + 1);
  std::int64_t first = 0;
  std::int64_t first_group = 0;
  for (const StoreShard& shard : manifest.shards) {
    first_examples_.push_back(first);
    first_groups_.push_back(first_group);
    first += shard.num_examples;
    first_group += shard.num_groups;
  }
  first_examples_.push_back(first);
  const auto num_runs = static_cast<std::int64_t>(num_shards()) * kRunsPerShard;
  shift_ = std::bit_width(static_cast<std::uint64_t>(first / std::max<std::int64_t>(1, num_runs)));
  std::size_t shard = 0;
  for (std::int64_t example = 0; example < first; example += std::int64_t{1} << shift_) {
    while (first_examples_[shard + 1] <= example) ++shard;
    shard_at_.push_back(static_cast<std::uint32_t>(shard));
  }
}

void ShardSet::check_files() const {
  const std::size_t stride = (num_shards() + kFilesLookedAt - 1) / kFilesLookedAt;
  for (std::size_t number = 0; number < num_shards(); number += stride) {
    const std::string path = folder_ + "/" + shard_name(number);
    std::error_code error;
    const auto num_bytes = std::filesystem::file_size(path, error);
    const StoreShard& shard = manifest_.shards[number];
    const auto least = static_cast<std::uintmax_t>(5 * shard.num_tokens + 14 * shard.num_examples);
    if (!error && num_bytes >= least) continue;
    throw Error(ErrorCategory::kData,
                error ? fmt::format("{}: {}", path, error.message())
                      : fmt::format("{}: has {} bytes, too few for its {} tokens: it was cut short",
                                    path, num_bytes, shard.num_tokens),
                "Copy the store again, all of its files.");
  }
}

std::size_t ShardSet::number_of(std::int64_t example) const {
  std::size_t shard = shard_at_[static_cast<std::size_t>(example >> shift_)];
  while (first_examples_[shard + 1] <= example) ++shard;
  return shard;
}

std::size_t ShardSet::number_of_group(std::int64_t group) const {
  const auto after = std::ranges::upper_bound(first_groups_, group);
  return static_cast<std::size_t>(after - first_groups_.begin()) - 1;
}

void ShardSet::prefetch(std::int64_t example) const {
  const std::size_t number = number_of(example);
  const MappedShard* mapped = mapped_[number].load(std::memory_order_acquire);
  if (mapped != nullptr) mapped->prefetch(example - mapped->first_example());
}

const MappedShard& ShardSet::map(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  if (owned_[number] == nullptr) {
    owned_[number] =
        std::make_unique<MappedShard>(folder_ + "/" + shard_name(number), manifest_.shards[number],
                                      manifest_.info, first_examples_[number]);
    mapped_[number].store(owned_[number].get(), std::memory_order_release);
  }
  return *owned_[number];
}

}  // namespace packtrain
