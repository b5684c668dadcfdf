// One rank's file of a checkpoint. It is a safetensors file whose metadata has a digest for each
// block of a tensor, so that a part can be checked alone. Data is read once, with pread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/descriptor.h"
#include "framework/core/safetensors.h"
#include "framework/core/safetensors_header.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/read_counts.h"

namespace packtrain {

// Block size of the digests. The last block of a tensor can be shorter.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{256} << 10U;

// Writes and syncs `folder`/`name`. Returns the entry without its ranges. Digests are computed from
// the bytes in memory; nothing is read back. Throws Error(kCheckpoint).
CheckpointFile write_shard_file(const std::string& folder, const std::string& name,
                                std::span<const TensorToWrite> tensors);

class ShardFile {
 public:
  // Opens the file and reads its header, which must match the manifest. `counts` must outlive it.
  // Throws Error(kCheckpoint) with the file's name.
  ShardFile(std::string path, const CheckpointFile& saved, ReadCounts& counts);

  const std::map<std::string, SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::string& path() const { return path_; }
  // The next read opens the file again, because the number of open descriptors is limited.
  void close() { file_.reset(); }
  bool is_open() const { return file_ != nullptr; }
  // Checks the digest of the whole file, once, for older checkpoints. Newer ones are checked by
  // parts.
  void verify_whole();

  // Passes the bytes [begin, end) of a tensor to `take` in order, in pieces of at most 128 blocks.
  // Each piece is checked before it is passed.
  void read(const std::string& tensor, std::uint64_t begin, std::uint64_t end,
            const std::function<void(std::span<const std::byte>)>& take);

 private:
  [[noreturn]] void fail(const std::string& fault) const;
  void open();
  std::string read_header();
  std::string read_bytes(std::uint64_t begin, std::uint64_t size);
  void check_blocks(const std::string& tensor, std::uint64_t first, std::string_view bytes) const;

  std::string path_;
  const CheckpointFile& saved_;
  ReadCounts& counts_;
  std::unique_ptr<Descriptor> file_;
  std::uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::uint64_t block_bytes_ = kBlockBytes;
  bool verified_ = false;
};

}  // namespace packtrain
