// Tests the memory that a process may still use of the host, from the kernel's texts.
#include "framework/device/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       24684096 kB\nMemFree:        16041416 kB\nMemAvailable:    2000000 kB\n";
constexpr std::int64_t kAvailable = std::int64_t{2'000'000} * 1024;

TEST(HostMemory, IsWhatTheKernelCallsAvailable) {
  EXPECT_EQ(available_memory_bytes(HostMemoryTexts{kMeminfo, "", "", ""}), kAvailable);
  EXPECT_EQ(available_memory_bytes(HostMemoryTexts{kMeminfo, "max\n", "5\n", ""}), kAvailable);
}

TEST(HostMemory, IsNoMoreThanTheControlGroupLeaves) {
  HostMemoryTexts texts{kMeminfo, "1000000\n", "700000\n", "anon 5\ninactive_file 100000\n"};
  EXPECT_EQ(available_memory_bytes(texts), 400'000);
  texts.group_current = "2000000\n";  // the limit was lowered below what is in use
  EXPECT_EQ(available_memory_bytes(texts), 0);
  texts.group_limit = "9000000000000\n";
  EXPECT_EQ(available_memory_bytes(texts), kAvailable);
}

TEST(HostMemory, IsUnknownWhereNoFileReportsIt) {
  EXPECT_EQ(available_memory_bytes(HostMemoryTexts{}), 0);
  EXPECT_EQ(available_memory_bytes(HostMemoryTexts{"MemTotal: 5 kB", "", "", ""}), 0);
}

// A made-up /proc and /sys/fs/cgroup; a group's limit and use, in bytes.
class ControlGroups : public ::testing::Test {
 protected:
  ControlGroups() {
    packtrain::test::write_bytes(places_.meminfo, kMeminfo);
    std::filesystem::create_directories(places_.groups);
  }

  void be_in(const std::string& lines) { packtrain::test::write_bytes(places_.own_groups, lines); }

  void add(const std::string& path, const std::string& limit, const std::string& use,
           const std::string& stat = "", bool version_1 = false) {
    const std::string folder = places_.groups + path;
    std::filesystem::create_directories(folder);
    packtrain::test::write_bytes(folder + (version_1 ? "/memory.limit_in_bytes" : "/memory.max"),
                                 limit);
    packtrain::test::write_bytes(
        folder + (version_1 ? "/memory.usage_in_bytes" : "/memory.current"), use);
    packtrain::test::write_bytes(folder + "/memory.stat", stat);
  }

  void add_first(const std::string& path, const std::string& limit, const std::string& use,
                 const std::string& stat = "") {
    add("/memory" + path, limit, use, stat, true);
  }

  std::int64_t available() const { return available_memory_bytes(places_); }

  packtrain::test::TemporaryFolder folder_;
  HostMemoryPlaces places_{folder_ / "meminfo", folder_ / "cgroup", folder_ / "groups"};
};

TEST_F(ControlGroups, OfVersion2CountFromTheProcessToTheRoot) {
  be_in("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
  const std::string job = "/system.slice/slurmstepd.scope/job_7";
  add(job + "/step_0/user/task_0", "max\n", "100\n");
  EXPECT_EQ(available(), kAvailable);
  add(job, "9000\n", "2000\n", "anon 1\ninactive_file 500\n");
  EXPECT_EQ(available(), 7500);
  add(job + "/step_0", "5000\n", "1000\n");
  EXPECT_EQ(available(), 4000);
  add("/system.slice", "3000\n", "1000\n");
  EXPECT_EQ(available(), 2000);
  add("/other.slice", "10\n", "9\n");  // not the process's
  EXPECT_EQ(available(), 2000);
}

TEST_F(ControlGroups, OfVersion1AreTheMemoryControllers) {
  be_in("12:cpuset:/elsewhere\n7:cpu,memory:/slurm/uid_1/job_3/step_0\n1:name=systemd:/\n0::/\n");
  add_first("", "9223372036854771712\n", "123456\n");
  EXPECT_EQ(available(), kAvailable);
  add_first("/slurm/uid_1/job_3", "8000\n", "3000\n",
            "inactive_file 7\ntotal_inactive_file 1000\n");
  EXPECT_EQ(available(), 6000);
  add_first("/elsewhere", "10\n", "9\n");
  EXPECT_EQ(available(), 6000);
}

TEST_F(ControlGroups, OfAContainerAreAtTheRootOfWhatItSees) {
  add("", "6000\n", "1000\n");
  EXPECT_EQ(available(), 5000);  // without /proc/self/cgroup
  be_in("0::/../../docker/abc\n");
  EXPECT_EQ(available(), 5000);
  be_in("0::/docker/abc\n");  // not mounted here
  EXPECT_EQ(available(), 5000);
}

TEST_F(ControlGroups, AreNoMoreThanTheHost) {
  be_in("0::/a\n");
  add("/a", "9000000000000\n", "5\n");
  EXPECT_EQ(available(), kAvailable);
  packtrain::test::write_bytes(places_.meminfo, "");
  EXPECT_EQ(available(), 8'999'999'999'995);
}

TEST(HostMemory, OfThisHostIsThere) {
  EXPECT_GT(host_available_memory_bytes(), 0);
}

}  // namespace
}  // namespace packtrain
