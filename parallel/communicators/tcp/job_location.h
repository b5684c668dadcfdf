// The position of this process in a job, from the variables of launchers without MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace packtrain {

struct JobLocation {
  int rank = 0;
  int size = 1;
  std::string address;  // of the store of the job
  std::uint16_t port = 0;
  bool store_is_served = false;  // by the launcher; otherwise rank 0 serves it
  std::string start;             // identifies this start among the starts of the job
};

// Returns a variable's value, or nullptr: getenv, or a test's values.
using Environment = std::function<const char*(const char*)>;

// torchrun and Kubernetes: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. srun without PMIx:
// SLURM_PROCID and the number of the step's tasks. Under srun the store's host is MASTER_ADDR, else
// the step's first host (the loopback of a step on one host). Its port is MASTER_PORT, else it
// follows from job and step.
// Returns nothing where this process is alone. Throws Error(kDevice) where it is one of several and
// a needed variable is missing or no number.
std::optional<JobLocation> locate_in_job(const Environment& environment);

// The first host of a list in Slurm's notation: "gpu[08-11,14],login" gives "gpu08".
std::string first_host(const std::string& list);

}  // namespace packtrain
