#include "launch/doctor/limits.h"

#include <algorithm>
#include <array>

namespace packtrain {
namespace {

// Files of a process: program, libraries, stores, checkpoints, NCCL's own sockets and pipes.
constexpr std::int64_t kFilesWithoutRanks = 512;
constexpr std::int64_t kMinOpenFiles = 1024;
// Threads of a rank: OpenMP, autograd, CUDA, NCCL's proxies, MPI, readers and writers.
constexpr std::int64_t kThreadsOfRank = 128;
constexpr std::int64_t kMinSharedMemory = 64 * kMiB;
constexpr std::int64_t kSharedMemoryOfGpuRank = 16 * kMiB;  // NCCL's buffers

constexpr auto kLimits = std::to_array<LimitKind>({
    {"open_files", &LimitNeeds::open_files, 1, "few open files allowed, wanted {}",
     "Raise `ulimit -n` on all hosts."},
    {"user_processes", &LimitNeeds::user_processes, 1,
     "few processes and threads allowed to the user, wanted {}", "Raise `ulimit -u` on all hosts."},
    {"shared_memory_bytes", &LimitNeeds::shared_memory_bytes, kMiB,
     "little shared memory, wanted {} MiB",
     "Give the container more (docker: --shm-size): NCCL and MPI talk through it."},
});

}  // namespace

std::span<const LimitKind> limit_kinds() {
  return kLimits;
}

LimitNeeds limits_needed(int num_ranks, int ranks_of_host, bool on_gpus) {
  LimitNeeds needs;
  // Each other rank needs a socket: for sums of CPU ranks, and on rank 0 where no MPI started the
  // ranks.
  needs.open_files = std::max(kMinOpenFiles, kFilesWithoutRanks + num_ranks);
  needs.user_processes = kThreadsOfRank * ranks_of_host;
  needs.shared_memory_bytes = kMinSharedMemory;
  if (on_gpus) {
    needs.shared_memory_bytes = std::max(kMinSharedMemory, kSharedMemoryOfGpuRank * ranks_of_host);
  }
  return needs;
}

}  // namespace packtrain
