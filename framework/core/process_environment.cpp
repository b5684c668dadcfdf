#include "framework/core/process_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace packtrain {
namespace {

constexpr auto kPrefixes = std::to_array<std::string_view>(
    {"OMPI_", "PMIX_", "PMI_", "PRTE_", "TORCHELASTIC_", "SLURM_STEP_", "SLURM_PMI", "ROLE_"});
constexpr auto kNames = std::to_array<std::string_view>(
    {"RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
     "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEPID",
     "SLURM_TASK_PID", "SLURM_GTIDS", "SLURM_NTASKS", "SLURM_NPROCS", "PACKTRAIN_STATUS_FILE",
     "PACKTRAIN_RESTARTS", "PACKTRAIN_TERMINAL_WIDTH"});

bool may_be_executed(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

bool is_variable_of_rank(std::string_view name) {
  const auto begins_name = [name](std::string_view prefix) { return name.starts_with(prefix); };
  return std::ranges::any_of(kPrefixes, begins_name) ||
         std::ranges::find(kNames, name) != kNames.end();
}

std::vector<std::string> environment_of_child(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const auto is_same = [name](const auto& variable) { return variable.first == name; };
    if (is_variable_of_rank(name) || std::ranges::any_of(added, is_same)) continue;
    variables.emplace_back(text);
  }
  for (const auto& [name, value] : added) variables.push_back(name + "=" + value);
  return variables;
}

bool is_program(const std::string& word) {
  if (word.find('/') != std::string::npos) return may_be_executed(word);
  const char* const listed = std::getenv("PATH");
  std::string_view folders = listed == nullptr ? "/bin:/usr/bin" : listed;
  for (;;) {
    const std::size_t colon = folders.find(':');
    const std::string folder(folders.substr(0, colon));
    if (may_be_executed((folder.empty() ? "." : folder) + "/" + word)) return true;
    if (colon == std::string_view::npos) return false;
    folders.remove_prefix(colon + 1);
  }
}

}  // namespace packtrain
