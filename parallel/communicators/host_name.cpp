#include "parallel/communicators/host_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

const char* chosen_name() {
  const char* chosen = std::getenv("NCCL_HOSTID");
  return chosen == nullptr || *chosen == '\0' ? nullptr : chosen;
}

}  // namespace

std::string host_name() {
  if (const char* chosen = chosen_name()) return chosen;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string machine_id() {
  const std::string boot_id = "/proc/sys/kernel/random/boot_id";
  if (chosen_name() != nullptr || !std::filesystem::exists(boot_id)) return "";
  std::string id = read_text(boot_id, ErrorCategory::kDevice);
  id.erase(id.find_last_not_of('\n') + 1);
  return id;
}

std::vector<std::string> unique_host_names(const std::vector<HostOfRank>& ranks) {
  std::map<std::string, std::map<std::string, std::string>> told;  // by name, by machine
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto& machines = told[ranks[rank].name];
    const std::string wanted = machines.empty()
                                   ? ranks[rank].name
                                   : fmt::format("{} (of rank {})", ranks[rank].name, rank);
    names.push_back(machines.try_emplace(ranks[rank].machine, wanted).first->second);
  }
  return names;
}

std::vector<std::string> gather_hosts(Communicator& all) {
  const std::vector<std::string> names = all_gather_texts(host_name(), all);
  const std::vector<std::string> machines = all_gather_texts(machine_id(), all);
  std::vector<HostOfRank> ranks;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    ranks.push_back({names[rank], machines[rank]});
  }
  return unique_host_names(ranks);
}

}  // namespace packtrain
