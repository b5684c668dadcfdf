// Loading configurations from text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {

// A file config.yaml in a folder of its own, removed with the object.
class ConfigText {
 public:
  explicit ConfigText(const std::string& yaml) { test::write_bytes(path(), yaml); }

  std::string path() const { return folder_ / "config.yaml"; }

 private:
  test::TemporaryFolder folder_;
};

inline Config load(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return load_config(ConfigText(yaml).path(), overrides);
}

// The text of the error that loading must end in, with the file's folder cut off.
inline std::string load_error(const std::string& yaml,
                              const std::vector<std::string>& overrides = {}) {
  const ConfigText file(yaml);
  try {
    load_config(file.path(), overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    std::string text = error.what();
    for (std::size_t at; (at = text.find(file.path())) != std::string::npos;) {
      text.replace(at, file.path().size(), "config.yaml");
    }
    return text;
  }
  ADD_FAILURE() << "loaded without an error:\n" << yaml;
  return "";
}

}  // namespace packtrain
