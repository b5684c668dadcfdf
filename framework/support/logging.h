// Set-up of spdlog's default logger: every line carries time, rank, step and phase, so that lines
// of many ranks can be laid beside each other. Callers log with spdlog::info and friends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace packtrain {

// Rank 0 writes info and above to standard error, other ranks warnings and above; every rank
// writes everything (debug and above) to `log_file`, appending, when one is given: its folder is
// made. Colour only on a terminal. May be called again, replacing the earlier set-up.
// Throws Error(kConfig) when the file cannot be opened.
void start_logging(int rank, int num_ranks, const std::string& log_file);

// Where the run is from now on: the optimizer step and a word for what it does ("forward",
// "checkpoint"). Shown in each later line. Any thread.
void set_log_position(std::int64_t step, std::string_view phase);

}  // namespace packtrain
