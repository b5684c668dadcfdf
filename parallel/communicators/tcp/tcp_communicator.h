// The collectives of host_communicator.h over sockets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/tcp/connection_manager.h"

namespace packtrain {

// Over these ranks of the world, in this order. All of them call it with the same `channel`, which
// no other communicator has. `connection_manager` must outlive it.
std::unique_ptr<Communicator> make_tcp_communicator(ConnectionManager& connection_manager,
                                                    const std::string& channel,
                                                    std::vector<int> members);

}  // namespace packtrain
