// The corpus without a fuzzer: every seed and every find of the past, read again.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/core/file.h"
#include "tests/fuzz/targets.h"

namespace packtrain::fuzz {
namespace {

std::vector<std::string> files_of(const Target& target) {
  std::vector<std::string> files;
  const std::filesystem::path folder = std::filesystem::path(CORPUS_FOLDER) / target.name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, IsReadWithoutAnUnexpectedException) {
  const std::vector<std::string> files = files_of(GetParam());
  ASSERT_FALSE(files.empty());
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string bytes = read_text(file, ErrorCategory::kData);
    GetParam().run(bytes);
    // And cut short, as files of crashed programs are.
    for (const std::size_t part : {4U, 2U}) GetParam().run(bytes.substr(0, bytes.size() / part));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Corpus, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace packtrain::fuzz
