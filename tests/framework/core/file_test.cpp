#include "framework/core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "framework/core/descriptor.h"
#include "framework/core/hash.h"
#include "framework/core/mapped_file.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(OutputFile, WritesAppendsAndOverwritesAtAnOffset) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  {
    OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kData);
    file.write("hello world");
    file.write_at(6, std::as_bytes(std::span("W", 1)));
    file.sync();
    file.close();
  }
  {
    OutputFile file(path, OutputFile::Mode::kAppend, ErrorCategory::kData);
    file.write("!");
    file.close();
  }
  EXPECT_EQ(read_text(path, ErrorCategory::kData), "hello World!");
  EXPECT_EQ(text_of(*MappedFile::open(path, ErrorCategory::kData)), "hello World!");
}

TEST(Descriptor, MakesFilesThatTheirOwnerCanOpenAgain) {
  const TemporaryFolder folder;
  const std::string path = folder / "log";
  const Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND, ErrorCategory::kData);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0600U, 0600U);
}

TEST(OutputFile, NamesTheFileAndTheReasonWhenTheDeviceIsFull) {
  OutputFile file("/dev/full", OutputFile::Mode::kAppend, ErrorCategory::kCheckpoint);
  const Error error = error_of([&] { file.write("x"); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_EQ(error.message(), "/dev/full: write failed: No space left on device");
}

TEST(OutputFile, ThrowsTheCallersCategoryWhenTheFolderIsMissing) {
  const TemporaryFolder folder;
  const Error error = error_of([&] {
    OutputFile file(folder / "missing/file", OutputFile::Mode::kCreate, ErrorCategory::kConfig);
  });
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  EXPECT_NE(error.message().find("missing/file: open failed"), std::string::npos);
}

TEST(ReadText, RefusesWhatIsLargerThanAskedFor) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "12345");
  EXPECT_EQ(read_text(folder / "file", ErrorCategory::kData, 5), "12345");
  const Error error = error_of([&] { read_text(folder / "file", ErrorCategory::kData, 4); });
  EXPECT_EQ(error.message(), folder / "file: has 5 bytes or more, at most 4 are read");
  // The system reports size 0 for this file, with any content.
  EXPECT_EQ(error_of([] { read_text("/proc/self/maps", ErrorCategory::kData, 10); }).category(),
            ErrorCategory::kData);
}

TEST(WriteTextAtomically, ReplacesTheTextAndLeavesNoTemporaryFile) {
  const TemporaryFolder folder;
  write_text_atomically(folder / "file", "old", ErrorCategory::kData);
  write_text_atomically(folder / "file", "new", ErrorCategory::kData);
  EXPECT_EQ(read_text(folder / "file", ErrorCategory::kData), "new");
  EXPECT_FALSE(std::filesystem::exists(folder / "file.tmp"));
}

TEST(MakeFolders, MakesParentsAndReportsAFileInTheWay) {
  const TemporaryFolder folder;
  make_folders(folder / "a/b", ErrorCategory::kData);
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  write_bytes(folder / "file", "");
  const Error error = error_of([&] { make_folders(folder / "file/b", ErrorCategory::kData); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
}

TEST(ReadAt, StopsAtTheEndOfTheFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "0123456789");
  const Descriptor file(folder / "file", O_RDONLY, ErrorCategory::kData);
  std::string bytes(4, ' ');
  EXPECT_EQ(read_at(file, "file", 3, bytes, ErrorCategory::kData), 4U);
  EXPECT_EQ(bytes, "3456");
  EXPECT_EQ(read_at(file, "file", 8, bytes, ErrorCategory::kData), 2U);
  EXPECT_EQ(bytes, "8956");
  EXPECT_EQ(read_at(file, "file", 11, bytes, ErrorCategory::kData), 0U);
}

TEST(Hash, IsXxh3Of128Bits) {
  // Known answers of the reference implementation, `xxh128sum`.
  EXPECT_EQ(hash_bytes({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_bytes(std::as_bytes(std::span("packtrain", 9))).size(), 32U);
}

TEST(Hash, IsTheSameInOneGoInPiecesAndOfAFile) {
  const TemporaryFolder folder;
  std::string text(1'000'000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i % 251);
  write_bytes(folder / "file", text);
  const auto bytes = std::as_bytes(std::span(text));
  Hasher hasher;
  hasher.update(bytes.first(3));
  hasher.update(bytes.subspan(3, 700'000));
  hasher.update(bytes.subspan(700'003));
  EXPECT_EQ(hasher.hex(), hash_bytes(bytes));
  EXPECT_EQ(hash_file(folder / "file", ErrorCategory::kData), hash_bytes(bytes));
  text[500'000] ^= 1;
  EXPECT_NE(hash_bytes(bytes), hasher.hex());
}

}  // namespace
}  // namespace packtrain
