// Random delays of the streams of a CPU device, and what the device reports.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "framework/core/error.h"
#include "framework/device/device.h"

namespace packtrain {
namespace {

// A slot refilled by one stream and read by another, as in the sharded schedule. Returns how often
// the reader found the filling of another round.
int stale_reads(bool with_waits, std::uint64_t seed) {
  DeviceOptions options;
  options.stream_delay_us = 300;
  options.delay_seed = seed;
  const auto device = make_cpu_device(options);
  const auto compute = device->make_stream(StreamKind::kCompute);
  const auto gather = device->make_stream(StreamKind::kGather);
  const auto ready = device->make_event();
  const auto free = device->make_event();
  std::atomic<int> slot = -1;
  int stale = 0;
  for (int round = 0; round < 40; ++round) {
    if (with_waits) gather->wait(*free);
    gather->run([&slot, round](StreamHandle) { slot = round; });
    gather->record(*ready);
    if (with_waits) compute->wait(*ready);
    compute->run([&](StreamHandle) { stale += slot != round ? 1 : 0; });
    compute->record(*free);
  }
  gather->synchronize();
  return stale;
}

TEST(RandomDelays, NeverBreakAScheduleThatWaits) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(stale_reads(true, seed), 0);
}

TEST(RandomDelays, BringOutAMissingWait) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) EXPECT_GT(stale_reads(false, seed), 0);
}

TEST(CpuDevice, ReportsItsProperties) {
  const auto device = make_cpu_device({});
  EXPECT_EQ(device->kind(), DeviceKind::kCpu);
  EXPECT_EQ(device->index(), 0);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_EQ(device->peak_tflops(), 0);
  EXPECT_GT(device->peak_memory_bytes(), 1U << 20U);
  EXPECT_GT(device->total_memory_bytes(), device->peak_memory_bytes());
  EXPECT_GT(device->memory_use().allocated_bytes, 1U << 20U);
  EXPECT_LT(device->memory_use().reserved_bytes, device->total_memory_bytes());
}

TEST(CpuDevice, HostBuffersAreAlignedAndOutliveTheDevice) {
  auto device = make_cpu_device({});
  HostBuffer buffer = device->allocate_host(1001);
  device.reset();
  ASSERT_EQ(buffer.size, 1001U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % 64, 0U);
  buffer.data[1000] = std::byte{1};
  EXPECT_EQ(make_cpu_device({})->allocate_host(0).data, nullptr);
}

TEST(CpuDevice, HostMemoryThatCannotBeHadIsAnErrorWithItsBytes) {
  const std::size_t bytes = std::size_t{1} << 60U;
  try {
    make_cpu_device({})->allocate_host(bytes);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kDevice);
    EXPECT_NE(error.message().find("no 1152921504606846976 bytes"), std::string::npos)
        << error.message();
    EXPECT_NE(error.advice().find("memory.offload: none"), std::string::npos) << error.advice();
  }
}

}  // namespace
}  // namespace packtrain
