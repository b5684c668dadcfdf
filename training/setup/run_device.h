// Chooses this rank's device and communicators from the configuration and the machine.
#pragma once

#include <memory>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/faults/collective_faults.h"

namespace packtrain {

struct RunDevice {
  std::unique_ptr<Device> device;
  Backend backend = Backend::kLocal;
  std::shared_ptr<CollectiveFaults> faults = nullptr;  // of its communicators; null: none
};

// `auto`: NCCL when ranks see GPUs, else the backend that CPU ranks were started with (MPI or tcp),
// or local for a single rank. Collective. Throws Error(kDevice) when there are GPUs but not one for
// each rank, or when a requested backend is not available. It never falls back silently.
RunDevice choose_device(const Config& config, World& world);

at::ScalarType scalar_type(Precision precision);
ShardingOptions sharding_options(const Config& config);
// Options of the path that gradients take, if it is available.
CommunicatorOptions reduce_options(const Config& config);
// Communicators over all ranks for weights and for gradients. Their paths are parallel.gather_path
// and parallel.reduce_path. `auto` takes the fastest measured path (docs/performance.md) that is
// available. The configured checks and faults are included. Collective.
std::unique_ptr<Communicator> connect_gather(const Config& config, const RunDevice& device,
                                             World& world);
std::unique_ptr<Communicator> connect_reduce(const Config& config, const RunDevice& device,
                                             World& world);

}  // namespace packtrain
