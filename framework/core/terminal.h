// The terminal of standard error and its width.
#pragma once

#include <cstddef>

namespace packtrain {

// Moves to the beginning of the line and clears it.
inline constexpr const char* kClearLine = "\r\x1b[K";

// Columns of the terminal of standard error at present. 0: no terminal that can redraw a line.
// mpirun reads standard error through a pipe, so launch/packtrain-run passes the width in
// PACKTRAIN_TERMINAL_WIDTH.
std::size_t terminal_width();

}  // namespace packtrain
