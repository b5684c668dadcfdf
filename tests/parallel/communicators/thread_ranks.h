// Several ranks as threads of one test, with a communicator between them.
#pragma once

#include <functional>

#include "parallel/communicators/communicator.h"

namespace packtrain::test {

// Calls `work` on `num_ranks` threads at the same time. Rethrows the first rank's exception when
// all are done. All ranks must throw at the same place, or the others wait for ever.
void run_ranks(int num_ranks, const std::function<void(Communicator&)>& work);

}  // namespace packtrain::test
