// The collectives of host_communicator.h over messages of MPI, with waiting that shares cores.
#pragma once

#include <mpi.h>

#include <memory>

#include "parallel/communicator.h"

namespace packtrain {

// Takes over `comm`. Needs MPI_THREAD_MULTIPLE when several threads use a communicator each.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm);

}  // namespace packtrain
