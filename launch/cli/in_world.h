// Running a subcommand as one rank of a job.
#pragma once

#include <functional>

#include "parallel/world.h"

namespace packtrain {

// Joins the job, runs `body`, leaves the job and returns the exit code. A failure of `body` ends
// the whole job (World::fail), printed once when all ranks fail alike. A stop on request is no
// failure of one rank: every rank leaves in order with its exit code.
int in_world(const std::function<void(World&)>& body);

}  // namespace packtrain
