// Running a subcommand as one rank of a job.
#pragma once

#include <functional>

#include "parallel/world.h"

namespace packtrain {

// Joins the job, runs `body`, leaves the job and returns the exit code. A failure of `body` ends
// the whole job (World::fail), printed once when all ranks fail alike. A stop on request and a
// verification that failed are agreed by all ranks: each leaves in order with the exit code.
int in_world(const std::function<void(World&)>& body);

}  // namespace packtrain
