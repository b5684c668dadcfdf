// How a failing rank ends the job: one message when all ranks fail equally, else one for each.
#pragma once

#include <mpi.h>

#include <string>

#include "parallel/communicators/failure_report.h"

namespace packtrain {

// Reports through rank 0 where that fails too within two seconds, else directly. Then aborts the
// job. `comm` spans all ranks and has no other use.
[[noreturn]] void fail_on_all_ranks(MPI_Comm comm, const FailureReport& report,
                                    const std::string& host);

}  // namespace packtrain
