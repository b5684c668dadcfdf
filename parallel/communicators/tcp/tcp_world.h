#pragma once

#include <memory>

#include "parallel/communicators/tcp/job_location.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// Joins the job in which this process has location `place`. Ranks find each other through
// libtorch's TCPStore, then communicate over their own sockets. Collective. Throws Error(kDevice)
// when the store or a rank does not come within 15 minutes.
std::unique_ptr<World> make_tcp_world(const JobLocation& place);

}  // namespace packtrain
