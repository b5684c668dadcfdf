// What this process and its machine are, found without other ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/doctor/judgement.h"

namespace packtrain {

// program, libraries, library_hash. `program`: a text for people; the hash of the program's file is
// added to it.
void find_versions(const std::string& program, Facts& facts);

// open_files, user_processes, shared_memory_bytes.
void find_limits(Facts& facts);

// gpu: what nvidia-smi says of the GPU that this process sees as `index`, and its name only where
// there is no nvidia-smi.
void find_gpu(int index, const std::string& name, Facts& facts);

// A line of `nvidia-smi --query-gpu` (the keys are in machine.cpp), and of `nvidia-smi nvlink
// --status`. For tests.
Facts parse_gpu(std::string_view query_line, std::string_view nvlink_status);

// What a program prints; nothing when it cannot be run or fails.
std::optional<std::string> output_of(const std::vector<std::string>& words);

}  // namespace packtrain
