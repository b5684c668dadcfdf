// The communicator of one rank: collectives are copies or nothing.
#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// For host memory.
std::unique_ptr<Communicator> make_local_communicator();

}  // namespace packtrain
