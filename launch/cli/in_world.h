// Runs a subcommand as one rank of a job.
#pragma once

#include <functional>

#include "parallel/communicators/world.h"

namespace packtrain {

// Joins the job, runs `body`, leaves the job and returns the exit code. A failure of `body` ends
// the whole job (World::fail); it is printed once when all ranks fail equally. All ranks agree on a
// requested stop and on a failed verification, so each leaves normally with the exit code.
int in_world(const std::function<void(World&)>& body);

}  // namespace packtrain
