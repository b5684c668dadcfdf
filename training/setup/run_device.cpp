#include "training/setup/run_device.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/offload.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "framework/device/tensor_memory.h"
#include "framework/device/tensor_type.h"
#include "parallel/communicators/checked_communicator.h"
#include "training/optimizers/parameter_groups.h"
#include "training/setup/gpu_assignment.h"
#include "training/setup/recompute_policies.h"

namespace packtrain {
namespace {

void require_a_gpu_each(const std::vector<GpusOfRank>& gpus) {
  const std::string shared = find_shared_gpu(gpus);
  if (shared.empty()) return;
  throw Error(ErrorCategory::kDevice, shared,
              "Start at most one rank per GPU (packtrain-run -n), show each rank its own "
              "(CUDA_VISIBLE_DEVICES), or train on the CPU with parallel.backend=mpi.");
}

Backend choose_backend(const Config& config, const World& world,
                       const std::vector<GpusOfRank>& gpus) {
  const Backend on_cpu = world.size() > 1 ? world.on_cpu() : Backend::kLocal;
  const std::optional<Backend> chosen = config.parallel.backend;
  if (chosen == Backend::kLocal && world.size() > 1) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("parallel.backend is local, but {} ranks were started", world.size()),
                "Use parallel.backend=auto, mpi or nccl for several ranks.");
  }
  if (chosen == Backend::kNccl) require_a_gpu_each(gpus);
  if (chosen) return chosen == Backend::kMpi ? on_cpu : *chosen;
  const bool any_gpu =
      std::ranges::any_of(gpus, [](const GpusOfRank& rank) { return !rank.visible.empty(); });
  if (any_gpu) require_a_gpu_each(gpus);
  return any_gpu ? Backend::kNccl : on_cpu;
}

// Only NCCL has these paths. Another backend rejects a path that is given by name.
void check_paths(const ParallelSection& parallel, Backend backend) {
  if (backend == Backend::kNccl) return;
  const auto reject = [backend](const char* key) {
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("{} names a path of NCCL, but the backend is {}", key, name_of(backend)),
        "Set it to auto, or train on GPUs with parallel.backend=nccl.");
  };
  if (parallel.gather_path) reject("parallel.gather_path");
  if (parallel.reduce_path) reject("parallel.reduce_path");
}

// From now on libtorch's operators without a deterministic form throw.
void use_deterministic_algorithms() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Our operators write all memory that they allocate. Filling it before only serves to find bugs.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

// A path that is given by name. Rings are always available.
CommunicatorOptions given(CollectivePath path) {
  return {.path = path, .required = path != CollectivePath::kRing};
}

CommunicatorOptions gather_options(const Config& config) {
  const auto path = config.parallel.gather_path;
  return path ? given(*path) : CommunicatorOptions{.path = CollectivePath::kCopyEngine};
}

std::unique_ptr<Communicator> connect(const Config& config, const RunDevice& device, World& world,
                                      const CommunicatorOptions& options, const char* name) {
  std::unique_ptr<Communicator> communicator = world.connect(device.backend, options);
  if (config.debug.check_collectives) {
    communicator =
        check_collectives(std::move(communicator), world.control().split(0, world.rank()), name);
  }
  if (device.faults == nullptr) return communicator;
  return device.faults->decorate(std::move(communicator));
}

}  // namespace

CommunicatorOptions reduce_options(const Config& config) {
  if (const auto path = config.parallel.reduce_path) return given(*path);
  // The cost of reducing a gradient, relative to that of its products, depends only on the tokens.
  constexpr std::int64_t kFewTokens = 3072;
  const auto tokens = config.batch.max_tokens_per_micro_batch;
  if (tokens && *tokens <= kFewTokens) return {.path = CollectivePath::kCopyEngine};
  return {.path = CollectivePath::kRing};
}

RunDevice choose_device(const Config& config, World& world) {
  DeviceOptions options;
  options.stream_delay_us = config.debug.stream_delay_us;
  options.delay_seed = config.run.seed + world.rank();
  RunDevice chosen;
  const std::vector<GpusOfRank> gpus = gather_gpus(world);
  chosen.backend = choose_backend(config, world, gpus);
  check_paths(config.parallel, chosen.backend);
  const auto gpu = assign_gpus(gpus)[static_cast<std::size_t>(world.rank())];
  chosen.device = chosen.backend == Backend::kNccl ? make_cuda_device(gpu.value(), options)
                                                   : make_cpu_device(options);
  if (const auto cap = config.debug.memory_cap_gib) {
    cap_tensor_memory(*chosen.device, static_cast<std::size_t>(*cap * kGibibyte));
  }
  if (config.precision.deterministic) use_deterministic_algorithms();
  log_info("{} rank{} on {} over {}", world.size(), world.size() > 1 ? "s" : "",
           chosen.device->name(), name_of(chosen.backend));
  return chosen;
}

at::ScalarType scalar_type(Precision precision) {
  return scalar_type(data_type(precision));
}

std::unique_ptr<Communicator> connect_gather(const Config& config, const RunDevice& device,
                                             World& world) {
  return connect(config, device, world, gather_options(config), "weights");
}

std::unique_ptr<Communicator> connect_reduce(const Config& config, const RunDevice& device,
                                             World& world) {
  return connect(config, device, world, reduce_options(config), "gradients");
}

ShardingOptions sharding_options(const Config& config) {
  ShardingOptions options;
  options.zero_stage = config.parallel.zero_stage;
  options.gather_slots = static_cast<int>(config.parallel.gather_slots.value_or(kMinGatherSlots));
  options.resident_embeddings = config.parallel.resident_embeddings;
  options.sums_locally = config.parallel.accumulate == Accumulate::kLocal;
  options.reduce = scalar_type(config.precision.reduce);
  options.optimizer_state = ParameterGroups(config.optimizer).state();
  options.poison_slots = config.debug.poison_slots;
  options.check_gathers = config.debug.check_gathers;
  options.offload_inputs = offloads_activations(config.memory.offload);
  options.offload_state = offloads_optimizer(config.memory.offload);
  return options;
}

}  // namespace packtrain
