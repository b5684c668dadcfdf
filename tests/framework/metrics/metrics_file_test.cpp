#include "framework/metrics/metrics_file.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
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

TEST(MetricsFile, KeepsLateResultsOfCommandsThatFollowLinesThatAreCut) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string result = R"({"step":2,"evaluate_command":{"a":1}})";
  std::string text;
  std::string wanted;
  for (int step = 1; step <= 60; ++step) {
    const std::string line = padded_line(step, 100'000) + "\n";
    text += line;
    if (step <= 40) wanted += line;
    if (step == 50) text += result + "\n";
  }
  wanted += result + "\n";
  write_text_atomically(path, text + R"({"step":)", ErrorCategory::kInternal);
  const std::string output = output_of([&] { truncate_after_step(path, 40); });
  EXPECT_EQ(written_in(path), wanted);
  EXPECT_EQ(occurrences(output, "cut 21 line(s)"), 1U) << output;
}

TEST(MetricsFile, CutsTheEvaluationThatIsDueAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string before = numbered_line(1) + "\n" + R"({"step":1,"validation_loss":2.0})" +
                             "\n" + numbered_line(2) + "\n";
  write_text_atomically(
      path, before + R"({"step":2,"validation_loss":1.5})" + "\n" + numbered_line(3) + "\n",
      ErrorCategory::kInternal);
  output_of([&] { cut_evaluation_of(path, 2); });
  EXPECT_EQ(written_in(path), before);
}

TEST(MetricsFile, OfAnySizeIsReadFromItsEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  constexpr std::size_t kHole = std::size_t{1} << 40U;  // more than a process can read
  std::string text = "\n";
  for (int step = 1; step <= 40; ++step) text += numbered_line(step) + "\n";
  {
    OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kInternal);
    file.truncate(kHole);
    file.write_at(kHole, std::as_bytes(std::span(text)));
    file.close();
  }
  MetricsFile file(path, 40);
  file.append(numbered_line(41));
  EXPECT_EQ(std::filesystem::file_size(path), kHole + text.size() + numbered_line(41).size() + 1);
}

TEST(MetricsFile, ThatCannotBeOpenedIsAnErrorOfTheUserWithAdvice) {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const auto expect_error = [&] {
    try {
      const MetricsFile file(path, 0);
      ADD_FAILURE() << "opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kConfig);
      EXPECT_EQ(occurrences(error.message(), path), 1U) << error.what();
      EXPECT_EQ(occurrences(error.advice(), "choose another run.output"), 1U) << error.what();
    }
  };
  std::filesystem::create_directory(path);
  expect_error();
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder.file("missing/metrics.jsonl"), path);
  expect_error();
}

}  // namespace
}  // namespace packtrain
