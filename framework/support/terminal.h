// Whether somebody looks at standard error as it is written, and how wide their view is.
#pragma once

#include <cstddef>

namespace packtrain {

// To the beginning of the line, and all of it cleared.
inline constexpr const char* kClearLine = "\r\x1b[K";

// Columns of the terminal behind standard error, now; 0: there is none that could redraw a line.
// Under mpirun, which reads standard error through a pipe, launch/packtrain-run tells the width:
// PACKTRAIN_TERMINAL_WIDTH.
std::size_t terminal_width();

}  // namespace packtrain
