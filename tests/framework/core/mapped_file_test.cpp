// Memory maps of files, and of files that change meanwhile.
#include "framework/core/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

TEST(MappedFile, MapsAnEmptyFileAsNoBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder / "empty", ErrorCategory::kData)->bytes().empty());
  EXPECT_EQ(read_text(folder / "empty", ErrorCategory::kData), "");
}

TEST(MappedFile, RefusesAFolder) {
  const TemporaryFolder folder;
  const Error error = error_of([&] { MappedFile::open(folder.path(), ErrorCategory::kData); });
  EXPECT_NE(error.message().find("is a folder, wanted a file"), std::string::npos);
}

TEST(MappedFile, NamesTheLimitOfMapsWhereItIsReached) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "");
  std::error_code error;
  std::filesystem::resize_file(folder / "file", std::uintmax_t{8} << 40U, error);  // a hole
  if (error) GTEST_SKIP() << "no files of 8 TiB here";
  const Error full = error_of([&] {
    std::vector<std::shared_ptr<const MappedFile>> files;  // of 128 TiB of addresses
    for (int i = 0; i < 40; ++i) {
      files.push_back(MappedFile::open(folder / "file", ErrorCategory::kData));
    }
  });
  EXPECT_NE(full.message().find("vm.max_map_count"), std::string::npos) << full.what();
  EXPECT_NE(full.advice().find("sysctl"), std::string::npos);
}

TEST(MappedFile, ReportsThatItWasWrittenTo) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "12345678");
  const auto file = MappedFile::open(folder / "file", ErrorCategory::kData);
  EXPECT_NO_THROW(file->check_unchanged());
  const auto later = std::filesystem::last_write_time(folder / "file") + std::chrono::seconds(1);
  std::filesystem::last_write_time(folder / "file", later);
  const Error touched = error_of([&] { file->check_unchanged(); });
  EXPECT_EQ(touched.category(), ErrorCategory::kData);
  EXPECT_TRUE(touched.message().starts_with(folder / "file: was written to")) << touched.what();
  std::filesystem::resize_file(folder / "file", 3);
  EXPECT_NE(error_of([&] { file->check_unchanged(); }).message().find("had 8 bytes, now 3"),
            std::string::npos);
}

TEST(MappedFile, OutlivesItsName) {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "old");
  const auto file = MappedFile::open(folder / "file", ErrorCategory::kData);
  write_text_atomically(folder / "file", "renamed over", ErrorCategory::kData);
  EXPECT_NO_THROW(file->check_unchanged());
  std::filesystem::remove(folder / "file");
  EXPECT_NO_THROW(file->check_unchanged());
  EXPECT_EQ(static_cast<char>(file->bytes()[0]), 'o');
}

// Reads a byte whose page the file has no more.
void read_beyond_the_end(const std::string& path) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  write_bytes(path, std::string(3 * page, 'x'));
  const auto file = MappedFile::open(path, ErrorCategory::kData);
  std::filesystem::resize_file(path, page);
  const volatile std::byte* byte = &file->bytes()[2 * page + 5];
  static_cast<void>(*byte);
}

using MappedFileDeathTest = ::testing::Test;

TEST(MappedFileDeathTest, APageThatIsGoneEndsTheProcessWithFileAndByte) {
  const TemporaryFolder folder;
  const auto offset = std::to_string(2 * ::sysconf(_SC_PAGESIZE) + 5);
  EXPECT_EXIT(read_beyond_the_end(folder / "file"), ::testing::ExitedWithCode(65),
              "error: .*/file: byte " + offset + " cannot be read any more");
}

// A map of somebody else, and one of ours that is gone.
void bus_error_elsewhere(const std::string& path) {
  write_bytes(path, std::string(10, 'x'));
  MappedFile::open(path, ErrorCategory::kData).reset();
  const int descriptor = ::memfd_create("other", 0);
  const void* address = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
  static_cast<void>(*static_cast<const volatile char*>(address));
}

TEST(MappedFileDeathTest, ABusErrorOutsideMappedFilesNamesNoFile) {
  const TemporaryFolder folder;
  // The system's own end, or a sanitizer's.
  EXPECT_DEATH(bus_error_elsewhere(folder / "file"), "^((.|\n)*BUS(.|\n)*)?$");
}

}  // namespace
}  // namespace packtrain
