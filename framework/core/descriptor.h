// A file descriptor, closed with the object.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "framework/core/error.h"

namespace packtrain {

[[noreturn]] inline void fail_on(const std::string& path, const char* call, int error,
                                 ErrorCategory category) {
  throw Error(category,
              fmt::format("{}: {} failed: {}", path, call, std::generic_category().message(error)));
}

// Throws Error(category) unless `status` is that of a regular file.
inline void check_regular_file(const struct stat& status, const std::string& path,
                               ErrorCategory category) {
  if (S_ISREG(status.st_mode)) return;
  throw Error(category, fmt::format("{}: {}", path,
                                    S_ISDIR(status.st_mode) ? "is a folder, wanted a file"
                                                            : "is not a regular file"));
}

class Descriptor {
 public:
  // Throws Error(category) when the file cannot be opened. O_CLOEXEC is added to `flags`. A file
  // that O_CREAT makes can be read and written by its owner, and by others as the umask allows.
  Descriptor(const std::string& path, int flags, ErrorCategory category)
      : value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (value_ < 0) fail_on(path, "open", errno, category);
  }
  // Takes ownership of an open descriptor.
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace packtrain
