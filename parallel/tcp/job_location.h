// Which process of a job this one is, as launchers that are not MPI's tell it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace packtrain {

struct JobLocation {
  int rank = 0;
  int size = 1;
  std::string address;  // where the store of the job is served
  std::uint16_t port = 0;
  bool store_is_served = false;  // by the launcher; else rank 0 serves it
  std::string start;             // tells this start of the job from its other starts
};

// A variable's value, or nullptr: getenv, or what a test says.
using Environment = std::function<const char*(const char*)>;

// torchrun and Kubernetes: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. srun without PMIx:
// SLURM_PROCID and the number of the step's tasks; the store is then at MASTER_ADDR, else at the
// step's first host (the loopback where it has but one), at MASTER_PORT, else at a port that
// follows from job and step. Nothing where this process is alone. Throws Error(kDevice) where it is
// one of several and a variable that the others are found by is missing or no number.
std::optional<JobLocation> locate_in_job(const Environment& environment);

// The first host of a list as Slurm writes it: "gpu[08-11,14],login" has "gpu08".
std::string first_host(const std::string& list);

}  // namespace packtrain
