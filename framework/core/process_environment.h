// What child processes find: their variables, and programs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace packtrain {

// True for a variable that makes a process a rank. Open MPI, PMIx, PMI, torchrun, a Slurm step and
// packtrain-run set them. A child that has one may wait for other ranks.
bool is_variable_of_rank(std::string_view name);

// This process's variables as NAME=VALUE without those of ranks, then `added`, which replace
// others.
std::vector<std::string> environment_of_child(
    const std::vector<std::pair<std::string, std::string>>& added);

// True for a path of a file that may be executed, or the name of one that is on PATH.
bool is_program(const std::string& word);

}  // namespace packtrain
