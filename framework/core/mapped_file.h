// Memory maps of files that other processes can change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/core/error.h"

namespace packtrain {

// A read-only memory map of a whole file, unmapped by the destructor. A page becomes unreadable
// when the file is truncated or its disk fails. The access is then a SIGBUS, from which no thread
// can continue. The process prints file and byte on stderr and ends with the category's exit code.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path, ErrorCategory category);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Throws Error(category) when the file was written to since it was mapped, by its size or
  // modification time. A file that was removed or replaced under its name is no error: the mapped
  // pages stay.
  void check_unchanged() const;

 private:
  // Fields of stat(2) that identify a file and its version.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t num_bytes = 0;
    std::int64_t modified_ns = 0;
  };

  MappedFile(std::string path, ErrorCategory category)
      : path_(std::move(path)), category_(category) {}

  std::string path_;
  ErrorCategory category_;
  Identity identity_;
  std::span<const std::byte> bytes_;
};

}  // namespace packtrain
