// Rates of copies on the CPU, whose streams are threads.
#include "launch/doctor/host_copies.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

TEST(HostCopies, HaveARateForEachDirectionAndForBothTogether) {
  const auto device = make_cpu_device({.num_threads = 1});
  const HostCopyRates rates = measure_host_copies(*device, std::size_t{1} << 20U);
  EXPECT_GT(rates.to_device_gb_s, 0.01);
  EXPECT_GT(rates.to_host_gb_s, 0.01);
  EXPECT_GT(rates.both_gb_s, 0.01);
}

// Streams wait up to 40 ms before a copy of 1 KiB, which would else take microseconds.
TEST(HostCopies, CountTheTimeThatACopyWaits) {
  const auto device = make_cpu_device({.stream_delay_us = 40000, .delay_seed = 3});
  const HostCopyRates rates = measure_host_copies(*device, std::size_t{1} << 10U);
  EXPECT_LT(rates.both_gb_s, 0.1);
}

}  // namespace
}  // namespace packtrain
