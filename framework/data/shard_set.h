// The shards of a store, each mapped when its first example is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/data/store_format.h"
#include "framework/data/store_shard.h"

namespace packtrain {

// Thread-safe. What it holds of a mapped shard is a few hundred bytes; pages are the system's, and
// shared by the processes of a host.
class ShardSet {
 public:
  // `manifest` must outlive it. Opens no file; asks the file system for a few, so that a store
  // whose files are gone is refused at the start. Throws Error(kData).
  ShardSet(std::string folder, const StoreManifest& manifest);

  std::size_t num_shards() const { return manifest_.shards.size(); }
  // Number of the shard with an example of the store, 0 .. num_examples - 1.
  std::size_t number_of(std::int64_t example) const;
  const MappedShard& shard(std::size_t number) const {
    const MappedShard* mapped = mapped_[number].load(std::memory_order_acquire);
    return mapped != nullptr ? *mapped : map(number);
  }
  const MappedShard& of(std::int64_t example) const { return shard(number_of(example)); }
  // Without mapping anything.
  void prefetch(std::int64_t example) const;

 private:
  const MappedShard& map(std::size_t number) const;
  void check_files() const;

  std::string folder_;
  const StoreManifest& manifest_;
  std::vector<std::int64_t> first_examples_;  // [shards + 1]
  // Shards differ in examples: of a run of 2^shift_ examples the shard of the first.
  unsigned shift_ = 0;
  std::vector<std::uint32_t> shard_at_;
  std::unique_ptr<std::atomic<const MappedShard*>[]> mapped_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const MappedShard>> owned_;
};

}  // namespace packtrain
