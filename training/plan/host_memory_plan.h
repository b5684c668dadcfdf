// Host memory that a run needs in addition to device memory, from counts and shapes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

struct HostMemoryLoad {
  std::optional<std::int64_t> num_examples;  // of data.train with its repeats; nothing: not known
  std::int64_t num_rows = 0;                 // of a micro-batch, padding included
  std::int64_t num_micro_batches = 1;        // of a step
  std::int64_t examples_per_step = 1;        // over all ranks
  // Bytes a second each way between host and GPU, measured. Nothing: assumed.
  std::optional<double> host_copy_bytes = {};
  std::int64_t available_bytes = 0;  // memory of a host; 0: not known
};

struct HostMemoryPlan {
  std::vector<MemoryEntry> of_rank;  // of each rank of the host that needs most
  std::vector<MemoryEntry> of_host;  // once a host: mapped files that its ranks share
  int ranks_per_host = 1;
  bool counts_examples = false;      // whether their number was known
  std::int64_t available_bytes = 0;  // memory of a host; 0: not known
  // Seconds a step of copies of the optimizer's state, each way, on a GPU; 0: none is offloaded.
  double state_copy_s = 0;
  double host_copy_bytes = 0;  // a second each way
  bool is_copy_measured = false;

  std::int64_t rank_bytes() const;
  std::int64_t host_bytes() const;  // all ranks and what they share
};

// Does not count the program, its libraries, and pages of token files, which the system drops.
// `device`: the plan of a rank's device. On the CPU that is host memory.
HostMemoryPlan plan_host_memory(const Config& config, const MemoryRanks& ranks, int ranks_per_host,
                                const MemoryPlan& device, const HostMemoryLoad& load);

// Disk space of checkpoints: weights and moments, each element once.
struct CheckpointPlan {
  std::int64_t bytes = 0;  // of one; headers and the manifest are not counted
  int max_at_once = 1;     // the kept ones and the one that is being written
};

// `device`: the plan of a rank's device.
CheckpointPlan plan_checkpoints(const Config& config, const MemoryRanks& ranks,
                                const MemoryPlan& device);

std::string checkpoint_line(const CheckpointPlan& plan);

// These texts say what is too much and what takes less, where a host is to take more than
// kUsableHostShare of its available memory. They are empty where it is not, and where that memory
// is not known.
struct HostShortage {
  std::string what;
  std::string advice;
};
HostShortage find_host_shortage(const HostMemoryPlan& plan);

// A line an entry, sums last.
std::string host_memory_table(const HostMemoryPlan& plan);

}  // namespace packtrain
