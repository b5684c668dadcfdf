// Error messages for pages of mapped files that cannot be read.
#pragma once

#include <cstddef>
#include <span>

namespace packtrain {

// From now on a SIGBUS in `pages` prints `path` and the byte, and ends the process with
// `exit_code`. `path` must stay valid. The first call installs the handler. Addresses outside all
// named pages go to the previous handler. Maps after the first 4096 are not named.
void name_bus_errors(std::span<const std::byte> pages, const char* path, int exit_code);
void forget_bus_errors(std::span<const std::byte> pages);

}  // namespace packtrain
