// A folder of one test, removed with the object.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/file.h"

namespace packtrain::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "packtrain-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorCategory::kInternal, pattern + ": mkdtemp failed");
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// Creates or replaces a file with these bytes.
inline void write_bytes(const std::string& path, std::string_view text) {
  OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kInternal);
  file.write(text);
  file.close();
}

// Returns the error that `action` threw. Fails the test when it throws nothing.
template <typename Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCategory::kStopped, "no error was thrown");
}

}  // namespace packtrain::test
