#pragma once

#include <memory>

#include "parallel/communicators/world.h"

namespace packtrain {

// The world of one rank, started without a launcher.
std::unique_ptr<World> make_local_world();

}  // namespace packtrain
