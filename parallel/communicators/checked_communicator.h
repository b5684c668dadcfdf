// debug.check_collectives: before each collective, ranks compare what they are about to call. A
// call that does not match is an error that names both calls, instead of a hang or wrong numbers.
#pragma once

#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// `control`: a communicator of host memory over the same ranks in the same order, used only here.
// `name`: the communicator's name in messages.
// Before each collective every rank compares its line (number, operation, count, type, label) with
// those of all others. Throws Error(kInternal) on every rank, naming the first two ranks that
// differ. The host waits at each call, so this is only for debugging.
std::unique_ptr<Communicator> check_collectives(std::unique_ptr<Communicator> real,
                                                std::unique_ptr<Communicator> control,
                                                const std::string& name);

}  // namespace packtrain
