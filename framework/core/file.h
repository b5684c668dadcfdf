// Files with checked calls. Durable data never uses stream classes, which hide failed writes: here
// write, sync and close throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"

namespace packtrain {

// A file that is being written. Call close() at the end. The destructor closes without throwing,
// for unwinding, and does not count as success.
class OutputFile {
 public:
  enum class Mode { kCreate, kAppend };
  OutputFile(std::string path, Mode mode, ErrorCategory category);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(std::size_t offset, std::span<const std::byte> bytes);
  std::size_t size() const;
  // Removes what comes after the first `size` bytes. Works on a full disk.
  void truncate(std::size_t size);
  void sync();
  void close();

 private:
  [[noreturn]] void fail(const char* call) const;
  std::string path_;
  ErrorCategory category_;
  int descriptor_ = -1;
};

// The contents of a regular file. Throws before it allocates memory when the file has more than
// `max_bytes`.
std::string read_text(const std::string& path, ErrorCategory category,
                      std::size_t max_bytes = std::numeric_limits<std::size_t>::max());
// Writes path.tmp, syncs it, renames it to `path`, and syncs the folder. Readers see either the old
// or the new text.
void write_text_atomically(const std::string& path, std::string_view text, ErrorCategory category);
// The same for a text that `write` writes in parts.
void replace_atomically(const std::string& path, ErrorCategory category,
                        const std::function<void(OutputFile&)>& write);
// Reads from byte `begin` on. Returns the number of bytes, fewer than asked for at the file's end.
std::size_t read_at(const Descriptor& file, const std::string& path, std::uint64_t begin,
                    std::span<char> bytes, ErrorCategory category);
void make_folders(const std::string& path, ErrorCategory category);
void sync_folder(const std::string& path, ErrorCategory category);

}  // namespace packtrain
