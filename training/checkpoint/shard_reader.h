// Reads any range of any parameter from a checkpoint's rank files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "training/checkpoint/manifest.h"
#include "training/checkpoint/saved_ranges.h"
#include "training/checkpoint/shard_file.h"

namespace packtrain {

class ShardReader {
 public:
  // Reads the manifest. A file is opened when data is read from it. For older checkpoints, whose
  // manifests have no ranges, all headers are read. Throws Error(kCheckpoint), or DamagedCheckpoint
  // when a header differs from the saved one or has ranges outside its parameters.
  explicit ShardReader(std::string folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  // The full shape as stored. Throws Error(kCheckpoint) when the checkpoint has no such parameter.
  const std::vector<std::int64_t>& shape(const std::string& parameter) const;
  // The stored type of `kind` (weight, or a name of optimizer state) at this element.
  DataType dtype(const std::string& kind, const std::string& parameter, std::int64_t begin = 0,
                 std::int64_t block = 1);

  // Fills `destination` (1-D, any device, converted to its dtype) with the elements of the
  // flattened parameter from `begin` on. `block`: `kind` has one value for this number of elements,
  // and `begin` is a multiple of it. Bytes are checked when they are read. The first read of an
  // older checkpoint's file checks the whole file.
  // Throws Error(kCheckpoint) when no file has an element, DamagedCheckpoint when a file differs
  // from the saved one.
  void read(const std::string& kind, const std::string& parameter, std::int64_t begin,
            const at::Tensor& destination, std::int64_t block = 1);

  const ReadCounts& counts() const { return counts_; }

 private:
  ShardFile& file(std::size_t index);
  void add_ranges(std::size_t index);
  // The tensor that contains the part. A frozen parameter has no moments.
  const SafetensorsEntry& entry(const std::string& kind, const std::string& parameter,
                                const SavedPart& part, std::int64_t block = 1);
  void read_part(const std::string& kind, const std::string& parameter, const SavedPart& part,
                 const at::Tensor& destination, std::int64_t block);
  // Checks an older checkpoint before an element is reported as missing, because damage is more
  // likely.
  void verify_all();
  std::string path_of(std::size_t file) const;

  std::string folder_;
  Manifest manifest_;
  SavedRanges ranges_;
  ReadCounts counts_;
  std::map<std::size_t, std::unique_ptr<ShardFile>> files_;  // the open files
};

}  // namespace packtrain
