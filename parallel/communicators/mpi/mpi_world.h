#pragma once

#include <memory>

#include "parallel/communicators/world.h"

namespace packtrain {

// Joins the MPI job that started this process. Throws Error(kDevice) when MPI lacks
// MPI_THREAD_MULTIPLE, because each stream's thread has a communicator of its own. Also throws when
// the launcher belongs to another MPI, which would make every process a job of its own.
std::unique_ptr<World> make_mpi_world();

}  // namespace packtrain
