// The world that main.cpp joins, for all tests of this executable.
#pragma once

#include "parallel/communicators/world.h"

namespace packtrain {

World& test_world();

}  // namespace packtrain
