// Reads any range of any parameter out of a checkpoint's rank files, whoever wrote which part.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/checkpoint/manifest.h"
#include "framework/support/safetensors.h"

namespace packtrain {

class ShardReader {
 public:
  // Opens the manifest and every rank file's header. Throws Error(kCheckpoint) when one is missing,
  // damaged, or holds ranges outside of its parameters.
  explicit ShardReader(std::string folder);

  const Manifest& manifest() const { return manifest_; }
  // The full shape. Throws Error(kCheckpoint) when the checkpoint has no such parameter.
  const std::vector<std::int64_t>& shape(const std::string& parameter) const;
  // The stored type of `kind` (weight, exp_avg, exp_avg_sq).
  DataType dtype(const std::string& kind, const std::string& parameter);

  // Fills `destination` (1-D, any device; converted to its dtype) with the elements of the
  // flattened parameter from `begin` on. A file's digest is verified when it is first read.
  // Throws Error(kCheckpoint) when an element is in no file or a file is not what was saved.
  void read(const std::string& kind, const std::string& parameter, std::int64_t begin,
            const at::Tensor& destination);

 private:
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t file = 0;
    const TensorView* tensor = nullptr;
  };

  void add_file(std::size_t index);
  void add_range(const std::string& tensor_name, const TensorView& tensor, std::size_t file);
  const std::vector<Range>& ranges(const std::string& kind, const std::string& parameter);
  void verify(std::size_t file);
  // Before something is called missing: a damaged header is the likelier reason.
  void verify_all();
  std::string path_of(std::size_t file) const;

  std::string folder_;
  Manifest manifest_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::vector<bool> verified_;
  std::map<std::string, std::vector<Range>> ranges_;  // by "kind/parameter", ascending begin
};

}  // namespace packtrain
