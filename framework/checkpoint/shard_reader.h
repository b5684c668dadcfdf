// Reads any range of any parameter out of a checkpoint's rank files, whoever wrote which part.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/saved_ranges.h"
#include "framework/checkpoint/shard_file.h"

namespace packtrain {

class ShardReader {
 public:
  // Reads the manifest; a file is opened when something is read from it. Of older checkpoints,
  // whose manifests have no ranges, all headers are read. Throws Error(kCheckpoint),
  // DamagedCheckpoint where a header is not what was saved or holds ranges outside of its
  // parameters.
  explicit ShardReader(std::string folder);

  const Manifest& manifest() const { return manifest_; }
  // The full shape. Throws Error(kCheckpoint) when the checkpoint has no such parameter.
  const std::vector<std::int64_t>& shape(const std::string& parameter) const;
  // The stored type of `kind` (weight, exp_avg, exp_avg_sq) at this element.
  DataType dtype(const std::string& kind, const std::string& parameter, std::int64_t begin = 0);

  // Fills `destination` (1-D, any device; converted to its dtype) with the elements of the
  // flattened parameter from `begin` on. Each byte is checked when it is read; of a file of an
  // older checkpoint the whole, at its first.
  // Throws Error(kCheckpoint) when an element is in no file, DamagedCheckpoint when a file is not
  // what was saved.
  void read(const std::string& kind, const std::string& parameter, std::int64_t begin,
            const at::Tensor& destination);

  const ReadCounts& counts() const { return counts_; }

 private:
  ShardFile& file(std::size_t index);
  void add_ranges(std::size_t index);
  // The tensor that holds the part; nothing has such where the parameter was frozen.
  const SafetensorsEntry& entry(const std::string& kind, const std::string& parameter,
                                const SavedPart& part);
  void read_part(const std::string& kind, const std::string& parameter, const SavedPart& part,
                 const at::Tensor& destination);
  // Before something of an older checkpoint is called missing: damage is the likelier reason.
  void verify_all();
  std::string path_of(std::size_t file) const;

  std::string folder_;
  Manifest manifest_;
  SavedRanges ranges_;
  ReadCounts counts_;
  std::map<std::size_t, std::unique_ptr<ShardFile>> files_;  // those that are open
};

}  // namespace packtrain
