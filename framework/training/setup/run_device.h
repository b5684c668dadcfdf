// The device and the communicators of this rank, chosen from the configuration and the machine.
#pragma once

#include <memory>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

struct RunDevice {
  std::unique_ptr<Device> device;
  Backend backend = Backend::kLocal;
};

// `auto`: NCCL where ranks see GPUs, else what CPU ranks talk by (MPI or tcp, as they were
// started), or local for a single rank. Collective. Throws Error(kDevice) when there are GPUs but
// not one for each rank, or an asked-for backend cannot serve: never a silent fallback.
RunDevice choose_device(const Config& config, World& world);

at::ScalarType scalar_type(Precision precision);
ShardingOptions sharding_options(const Config& config);
// The path that gradients take, where it can be had.
CommunicatorOptions reduce_options(const Config& config);
// Communicators over all ranks for weights and for gradients, by the paths of parallel.gather_path
// and parallel.reduce_path; `auto` takes the fastest measured (docs/performance.md) and, where that
// cannot be had, what can. With the checks and faults that the configuration asks for. Collective.
std::unique_ptr<Communicator> connect_gather(const Config& config, const RunDevice& device,
                                             World& world);
std::unique_ptr<Communicator> connect_reduce(const Config& config, const RunDevice& device,
                                             World& world);

}  // namespace packtrain
