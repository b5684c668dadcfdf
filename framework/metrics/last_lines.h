// The last lines of a file that is too large to be read as a whole.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "framework/core/error.h"

namespace packtrain {

// Calls `visit` with each line and the position of its first byte, from the last line backwards,
// until it returns false. A line has its newline; an incomplete last one has none. Memory: a block
// of 256 KiB and the longest line. Throws Error(category).
void visit_lines_backwards(
    const std::string& path, ErrorCategory category,
    const std::function<bool(std::string_view line, std::size_t begin)>& visit);

// Replaces what comes after the first `num_kept_bytes` of the file by `rest`. Readers see either
// the old or the new file. Throws Error(category).
void replace_end(const std::string& path, std::size_t num_kept_bytes, std::string_view rest,
                 ErrorCategory category);

}  // namespace packtrain
