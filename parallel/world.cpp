#include "parallel/world.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "framework/support/error.h"
#include "parallel/local/local_world.h"
#include "parallel/mpi/mpi_world.h"

namespace packtrain {

const char* name_of(Backend backend) {
  switch (backend) {
    case Backend::kLocal:
      return "local";
    case Backend::kMpi:
      return "mpi";
    case Backend::kNccl:
      return "nccl";
  }
  return "";
}

namespace {

// 0 where it is not set, or holds no number.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  int number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

// What torchrun, accelerate and srun without PMIx tell each of the processes that they start.
const char* variable_of_other_launcher() {
  for (const char* variable : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
    if (number_in(variable) > 1) return variable;
  }
  if (std::getenv("SLURM_STEP_ID") == nullptr) return nullptr;  // a batch script, one process
  const char* tasks =
      std::getenv("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  return number_in(tasks) > 1 ? tasks : nullptr;
}

void refuse_other_launchers() {
  const char* variable = variable_of_other_launcher();
  if (variable == nullptr) return;
  throw Error(
      ErrorCategory::kDevice,
      fmt::format("{}={}: this process is one of several, but no MPI launcher started it. "
                  "Each would be a whole run of one rank, all in the same folder; nothing "
                  "was started or written",
                  variable, std::getenv(variable)),
      fmt::format("Start it by `packtrain-run -n N`, by mpirun, or by `srun --mpi=pmix`. If "
                  "one process is meant, unset {}.",
                  variable));
}

}  // namespace

std::unique_ptr<World> join_world() {
  // Set by Open MPI's mpirun, by process managers that speak PMI, and by Slurm's PMIx plug-in.
  const bool launched = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ||
                        std::getenv("PMI_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
  if (!launched) refuse_other_launchers();
  return launched ? make_mpi_world() : make_local_world();
}

}  // namespace packtrain
