// The shards of a store. Each is mapped when its first example is used.
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

// Thread-safe. A mapped shard takes a few hundred bytes of the process. Its pages belong to the
// system's page cache, shared by the processes of a host.
class ShardSet {
 public:
  // `manifest` must outlive it. Opens no file, but checks that a few of the files exist, so that a
  // store without files is rejected at the start. Throws Error(kData).
  ShardSet(std::string folder, const StoreManifest& manifest);

  std::size_t num_shards() const { return manifest_.shards.size(); }
  // Index of the shard that has the example, 0 .. num_examples - 1.
  std::size_t number_of(std::int64_t example) const;
  const MappedShard& shard(std::size_t number) const {
    const MappedShard* mapped = mapped_[number].load(std::memory_order_acquire);
    return mapped != nullptr ? *mapped : map(number);
  }
  const MappedShard& of(std::int64_t example) const { return shard(number_of(example)); }
  // Number of the shard's first group.
  std::int64_t first_group(std::size_t number) const { return first_groups_[number]; }
  // Index of the shard that has the group, 0 .. num_groups - 1.
  std::size_t number_of_group(std::int64_t group) const;
  // Does not map anything.
  void prefetch(std::int64_t example) const;

 private:
  const MappedShard& map(std::size_t number) const;
  void check_files() const;

  std::string folder_;
  const StoreManifest& manifest_;
  std::vector<std::int64_t> first_examples_;  // [shards + 1]
  std::vector<std::int64_t> first_groups_;    // [shards]
  // Shards differ in size. For each 2^shift_ examples, shard_at_ has the shard of the first one.
  unsigned shift_ = 0;
  std::vector<std::uint32_t> shard_at_;
  std::unique_ptr<std::atomic<const MappedShard*>[]> mapped_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const MappedShard>> owned_;
};

}  // namespace packtrain
