// Several ranks as threads of one test, with a communicator between them.
#pragma once

#include <functional>

#include "parallel/communicator.h"

namespace packtrain::testing {

// Calls `work` on `num_ranks` threads at once. Rethrows the first rank's exception when all are
// done; a rank that throws must do so where all others do, or they wait for it for ever.
void run_ranks(int num_ranks, const std::function<void(Communicator&)>& work);

}  // namespace packtrain::testing
