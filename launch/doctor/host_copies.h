// Measures copies between pinned host memory and a rank's GPU, in both directions.
#pragma once

#include <cstddef>

#include "framework/device/device.h"
#include "launch/doctor/judgement.h"
#include "parallel/communicators/world.h"
#include "training/setup/run_device.h"

namespace packtrain {

// In 1e9 bytes a second: the fastest of several copies.
struct HostCopyRates {
  double to_device_gb_s = 0;
  double to_host_gb_s = 0;
  double both_gb_s = 0;  // of each direction, while both copy
};

// Copies `bytes` in each direction. Throws Error(kDevice) where the memory cannot be had.
HostCopyRates measure_host_copies(Device& device, std::size_t bytes);

// to_device_gb_s, to_host_gb_s and both_ways_gb_s of a rank on a GPU. Collective: all ranks copy at
// the same time, as they do for memory.offload. Without a GPU there are no facts.
void probe_host_copies(const RunDevice& device, World& world, Facts& facts);

}  // namespace packtrain
