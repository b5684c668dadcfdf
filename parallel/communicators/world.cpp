#include "parallel/communicators/world.h"

#include <cstdlib>

#include "parallel/communicators/local/local_world.h"
#include "parallel/communicators/mpi/mpi_world.h"
#include "parallel/communicators/tcp/job_location.h"
#include "parallel/communicators/tcp/tcp_world.h"

namespace packtrain {

const char* name_of(Backend backend) {
  switch (backend) {
    case Backend::kLocal:
      return "local";
    case Backend::kMpi:
      return "mpi";
    case Backend::kTcp:
      return "tcp";
    case Backend::kNccl:
      return "nccl";
  }
  return "";
}

std::unique_ptr<World> join_world() {
  // Set by Open MPI's mpirun, by PMI process managers, and by Slurm's PMIx plug-in.
  const bool launched = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ||
                        std::getenv("PMI_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
  if (launched) return make_mpi_world();
  const auto place = locate_in_job([](const char* variable) { return std::getenv(variable); });
  return place ? make_tcp_world(*place) : make_local_world();
}

}  // namespace packtrain
