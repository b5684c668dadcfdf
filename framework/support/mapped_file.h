// Memory maps of files that others may change meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/support/error.h"

namespace packtrain {

// A read-only memory map of a whole file, unmapped with the object. A page that cannot be read any
// more (the file was cut short, its disk fails) is a SIGBUS, from which no thread can go on: the
// process then says so on stderr, with file and byte, and ends with the category's exit code.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path, ErrorCategory category);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Throws Error(category) when the file was written to since it was mapped: its size or its time
  // of modification is another. One that was removed or replaced under its name does no harm: what
  // is mapped stays.
  void check_unchanged() const;

 private:
  // What stat(2) says of a file.
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
