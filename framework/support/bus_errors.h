// What a process says when a page of a mapped file cannot be read.
#pragma once

#include <cstddef>
#include <span>

namespace packtrain {

// From now on a SIGBUS in `pages` prints `path`, which must stay where it is, and the byte, and
// ends the process with `exit_code`. The first call installs the handler; what is not in any pages
// named here goes to the handler that was there before. Maps beyond the first 4096 are not named.
void name_bus_errors(std::span<const std::byte> pages, const char* path, int exit_code);
void forget_bus_errors(std::span<const std::byte> pages);

}  // namespace packtrain
