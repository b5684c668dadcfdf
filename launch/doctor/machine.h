// Facts about this process and its machine, without other ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/doctor/judgement.h"

namespace packtrain {

// program, libraries, library_hash. `program`: a text; the hash of the program's file is appended.
void find_versions(const std::string& program, Facts& facts);

// open_files, user_processes, shared_memory_bytes.
void find_limits(Facts& facts);

// gpu: what nvidia-smi reports of the GPU that this process sees as `index`; only its name where
// nvidia-smi is missing.
void find_gpu(int index, const std::string& name, Facts& facts);

// Parse a line of `nvidia-smi --query-gpu` (the keys are in machine.cpp), and the output of
// `nvidia-smi nvlink --status`. Public for tests.
Facts parse_gpu(std::string_view query_line, std::string_view nvlink_status);

// The output of a program. Nothing when it cannot be run or fails.
std::optional<std::string> output_of(const std::vector<std::string>& words);

}  // namespace packtrain
