// The collectives of host_communicator.h over MPI messages. Waiting yields the core.
#pragma once

#include <mpi.h>

#include <memory>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// Takes ownership of `comm`. Needs MPI_THREAD_MULTIPLE when several threads each use a
// communicator.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm);

}  // namespace packtrain
