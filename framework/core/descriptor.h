// A file descriptor, closed with the object.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
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

class Descriptor {
 public:
  // Throws Error(category) when the file cannot be opened. O_CLOEXEC is added to `flags`.
  Descriptor(const std::string& path, int flags, ErrorCategory category)
      : value_(::open(path.c_str(), flags | O_CLOEXEC)) {
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
