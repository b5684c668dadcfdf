// What a process may still use of the host, from the texts the kernel gives.
#include "framework/device/host_memory.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       24684096 kB\nMemFree:        16041416 kB\nMemAvailable:    2000000 kB\n";
constexpr std::int64_t kAvailable = std::int64_t{2'000'000} * 1024;

TEST(HostMemory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(available_memory_bytes({kMeminfo, "", "", ""}), kAvailable);
  EXPECT_EQ(available_memory_bytes({kMeminfo, "max\n", "5\n", ""}), kAvailable);
}

TEST(HostMemory, IsNoMoreThanTheControlGroupLeaves) {
  HostMemoryTexts texts{kMeminfo, "1000000\n", "700000\n", "anon 5\ninactive_file 100000\n"};
  EXPECT_EQ(available_memory_bytes(texts), 400'000);
  texts.group_current = "2000000\n";  // the limit was lowered below what is in use
  EXPECT_EQ(available_memory_bytes(texts), 0);
  texts.group_limit = "9000000000000\n";
  EXPECT_EQ(available_memory_bytes(texts), kAvailable);
}

TEST(HostMemory, IsUnknownWhereNothingTells) {
  EXPECT_EQ(available_memory_bytes({}), 0);
  EXPECT_EQ(available_memory_bytes({"MemTotal: 5 kB", "", "", ""}), 0);
}

TEST(HostMemory, OfThisHostIsThere) {
  EXPECT_GT(host_available_memory_bytes(), 0);
}

}  // namespace
}  // namespace packtrain
