#include "framework/metrics/metrics_file.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "tests/framework/metrics/full_disk.h"
#include "tests/framework/metrics/temporary_folder.h"

namespace packtrain {
namespace {

std::string numbered_line(int step) {
  return "{\"step\":" + std::to_string(step) + "}";
}

std::string written_in(const std::string& path) {
  return read_text(path, ErrorCategory::kInternal);
}

std::string output_of(const std::function<void()>& run) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  run();
  return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// More than the captured output has, which is a file too.
constexpr std::size_t kDiskBytes = 4096;

// A line that takes `num_bytes` of the file.
std::string padded_line(int step, std::size_t num_bytes) {
  const std::string line = numbered_line(step);
  return line + std::string(num_bytes - line.size() - 1, ' ');
}

TEST(MetricsFile, KeepsWholeLinesAndWritesTheOthersWhenItCan) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsFile file(path, 0);
  const std::string first = padded_line(1, kDiskBytes - 8);
  file.append(first);
  const std::string output = output_of([&] {
    const FullDisk disk(kDiskBytes);  // takes 8 bytes of the second line
    file.append(numbered_line(2));
    file.append(numbered_line(3) + "\n" + numbered_line(4));
  });
  EXPECT_EQ(written_in(path), first + "\n");
  EXPECT_EQ(file.num_unwritten_lines(), 3);
  EXPECT_EQ(occurrences(output, path + ": write failed: File too large: training continues"), 1U)
      << output;
  file.append(numbered_line(5));
  EXPECT_EQ(written_in(path), first + "\n" + numbered_line(2) + "\n" + numbered_line(3) + "\n" +
                                  numbered_line(4) + "\n" + numbered_line(5) + "\n");
  EXPECT_EQ(file.num_unwritten_lines(), 0);
}

TEST(MetricsFile, WarnsOnceForEachTimeThatTheDiskIsFull) {
  const TemporaryFolder folder;
  MetricsFile file(folder.file("metrics.jsonl"), 0);
  file.append(padded_line(1, kDiskBytes));
  const auto fails = [&] {
    const FullDisk disk(kDiskBytes);
    file.append(numbered_line(2));
  };
  EXPECT_EQ(occurrences(output_of(fails), "training continues"), 1U);
  EXPECT_EQ(occurrences(output_of(fails), "training continues"), 0U);
  const std::string output = output_of([&] { file.append(numbered_line(3)); });
  EXPECT_EQ(occurrences(output, "can be written again"), 1U) << output;
  EXPECT_EQ(occurrences(output_of(fails), "training continues"), 1U);
}

TEST(MetricsFile, LosesTheOldestLinesWhereTooManyWait) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string output = output_of([&] {
    MetricsFile file(path, 0);
    {
      const FullDisk disk(kDiskBytes);
      for (int step = 1; step <= 20; ++step) file.append(padded_line(step, std::size_t{1} << 20U));
    }
    EXPECT_EQ(file.num_unwritten_lines(), 20);
    file.append(numbered_line(21));
    EXPECT_EQ(file.num_unwritten_lines(), 4);
  });
  EXPECT_TRUE(written_in(path).starts_with(numbered_line(5) + " "));
  EXPECT_EQ(occurrences(output, "4 line(s) of this process are not in the file"), 1U) << output;
}

TEST(MetricsFile, WritesWhatWaitsAtTheEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string line = padded_line(1, kDiskBytes + 1);
  const std::string output = output_of([&] {
    const FullDisk disk(kDiskBytes);
    MetricsFile file(path, 0);
    file.append(line);
  });
  EXPECT_EQ(written_in(path), "");
  EXPECT_EQ(occurrences(output, "1 line(s) of this process are not in the file"), 1U) << output;
  output_of([&] {
    MetricsFile file(path, 0);
    {
      const FullDisk disk(kDiskBytes);
      file.append(line);
    }
  });
  EXPECT_EQ(written_in(path), line + "\n");
}

}  // namespace
}  // namespace packtrain
