// Tests memory whose pages several threads make present.
#include "framework/device/zero_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/device/host_memory.h"

namespace packtrain {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
constexpr const char* kKind = "memory of this test";

std::size_t bytes_of_page() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Of the address space of this process.
std::size_t mapped_bytes() {
  return std::stoull(read_text("/proc/self/statm", ErrorCategory::kDevice)) * bytes_of_page();
}

void expect_no_memory(std::size_t bytes) {
  try {
    const ZeroPages pages(kKind, bytes, 2);
    FAIL() << "got " << bytes << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kDevice);
    const std::string wanted =
        std::string(kKind) + ": the system gives no " + std::to_string(bytes) + " bytes";
    EXPECT_NE(error.message().find(wanted), std::string::npos) << error.message();
  }
}

TEST(ZeroPages, AreWholePagesOfZerosForAnySizeAndNumberOfThreads) {
  const std::size_t page = bytes_of_page();
  for (const std::size_t bytes : {std::size_t{1}, page - 1, page, page + 1, 100 * kMebibyte + 3}) {
    for (const int num_threads : {1, 2, 7}) {
      const ZeroPages pages(kKind, bytes, num_threads);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % page, 0U);
      EXPECT_EQ(pages.size(), (bytes + page - 1) / page * page);
      EXPECT_TRUE(std::all_of(pages.data(), pages.data() + pages.size(),
                              [](std::byte value) { return value == std::byte{0}; }))
          << bytes << " bytes";
    }
  }
}

TEST(ZeroPages, ArePresentBeforeTheyAreRead) {
  for (const int num_threads : {1, 3}) {
    const ZeroPages pages(kKind, 100 * kMebibyte + 1, num_threads);
    std::vector<unsigned char> present(pages.size() / bytes_of_page());
    ASSERT_EQ(mincore(pages.data(), pages.size(), present.data()), 0);
    EXPECT_TRUE(std::ranges::all_of(present, [](unsigned char page) { return (page & 1U) != 0; }));
  }
}

TEST(ZeroPages, CanBeWrittenToTheirEnd) {
  const ZeroPages pages(kKind, 5, 1);
  std::fill_n(pages.data(), pages.size(), std::byte{7});
  EXPECT_EQ(pages.data()[pages.size() - 1], std::byte{7});
}

TEST(ZeroPages, AreUnmappedWithTheirOwner) {
  constexpr std::size_t kBytes = 512 * kMebibyte;
  const std::size_t before = mapped_bytes();
  {
    const ZeroPages pages(kKind, kBytes, 1);
    EXPECT_GE(mapped_bytes(), before + kBytes);
  }
  EXPECT_LT(mapped_bytes(), before + kBytes);
}

TEST(ZeroPages, ThatTheAddressSpaceHasNotAreAnErrorWithTheirBytes) {
  expect_no_memory(std::size_t{1} << 60U);
  expect_no_memory(std::numeric_limits<std::size_t>::max());
}

TEST(ZeroPages, BeyondTheMemoryOfTheHostAreAnErrorThatLeavesNothingMapped) {
  const auto available = static_cast<std::size_t>(host_available_memory_bytes());
  const std::size_t before = mapped_bytes();
  expect_no_memory(2 * available);
  EXPECT_LT(mapped_bytes(), before + available);
}

TEST(PageThreads, AreAShareOfTheProcessorsOfAtMostSixteen) {
  EXPECT_GE(num_page_threads(1), 1);
  EXPECT_LE(num_page_threads(1), std::min<std::int64_t>(16, sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_LE(num_page_threads(2), num_page_threads(1));
  EXPECT_EQ(num_page_threads(1 << 20U), 1);
  EXPECT_EQ(num_page_threads(0), num_page_threads(1));
}

}  // namespace
}  // namespace packtrain
