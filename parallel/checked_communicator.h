// debug.check_collectives: ranks tell each other what they are about to call before they call it,
// so that a call that does not match is an error that names both instead of a hang, or wrong
// numbers.
#pragma once

#include <memory>
#include <string>

#include "parallel/communicator.h"

namespace packtrain {

// `control`: over the same ranks in the same order, of host memory, for this alone. Before each
// collective every rank compares its line (number, operation, count, type, what it is for) with all
// others'; throws Error(kInternal) naming the first two ranks that differ, on every rank alike.
// `name`: of the communicator, for people. The host waits at each call: for hunting bugs.
std::unique_ptr<Communicator> check_collectives(std::unique_ptr<Communicator> real,
                                                std::unique_ptr<Communicator> control,
                                                const std::string& name);

}  // namespace packtrain
