// safetensors files: 8-byte little-endian header length, JSON header, raw tensors.
// Format: github.com/huggingface/safetensors (README, "Format"). The reader memory-maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/data_type.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/mapped_file.h"

namespace packtrain {

// One tensor in a mapped file. `data` is valid as long as the SafetensorsFile exists.
struct TensorView {
  DataType dtype = DataType::kUInt8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;

  std::int64_t numel() const;
};

class SafetensorsFile {
 public:
  // Maps `path` read-only and checks the whole header before any tensor is used. It checks length,
  // JSON, dtypes, overflow of shapes, and that the offsets cover the file without gaps or overlap.
  // Throws Error(`category`) with the file and the first fault.
  static std::shared_ptr<const SafetensorsFile> open(const std::string& path,
                                                     ErrorCategory category);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  void check_unchanged() const;  // see MappedFile
  // Throws when the tensor is missing.
  const TensorView& tensor(const std::string& name) const;

 private:
  SafetensorsFile() = default;
  std::string path_;
  ErrorCategory category_{};
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// One tensor for a writer. `data` must stay valid until the write returns.
struct TensorToWrite {
  std::string name;
  DataType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

struct TensorHeader {
  std::string name;
  DataType dtype = DataType::kUInt8;
  std::vector<std::int64_t> shape;
};

// Writes a file tensor by tensor, for data that does not fit into memory as a whole. Tensors are
// stored in the given order. Wide types first keeps each aligned to its elements. Throws
// Error(`category`) with the file and the system's reason when writing fails. Throws
// Error(kInternal) for a duplicate name or a wrong number of bytes.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::string path, std::vector<TensorHeader> tensors,
                    const std::map<std::string, std::string>& metadata, ErrorCategory category);

  void write(std::span<const std::byte> data);  // the next tensor
  // The next bytes of a tensor. Together its bytes are those of its shape.
  void append(std::span<const std::byte> data);
  void finish();  // syncs and closes; every tensor must be written
  // The bytes before the first tensor as written: length and header.
  const std::string& header() const { return header_; }

 private:
  void skip_complete();
  [[noreturn]] void fail_size(std::size_t size) const;

  std::string path_;
  std::vector<TensorHeader> tensors_;
  std::string header_;
  std::size_t next_ = 0;
  std::size_t num_appended_ = 0;  // bytes of the next tensor
  std::unique_ptr<OutputFile> file_;
};

// Writes, syncs and closes `path`. Throws Error(`category`) with the file and the system's reason
// when any of it fails. The header is padded with spaces so that tensors start at a multiple of 8.
void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata, ErrorCategory category);

}  // namespace packtrain
