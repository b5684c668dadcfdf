// Times and sizes of this process.
#pragma once

#include <cstdint>

namespace packtrain {

double wall_seconds();  // since a fixed time
double cpu_seconds();   // spent by all threads of this process

// Resident memory in bytes, now and its peak since the last restart_peak_memory() (Linux).
std::int64_t resident_memory();
std::int64_t peak_memory();
void restart_peak_memory();
std::int64_t own_memory();  // resident, without pages of files, which processes share

}  // namespace packtrain
