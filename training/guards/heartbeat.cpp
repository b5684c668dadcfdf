#include "training/guards/heartbeat.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSignBytes = 256;
constexpr std::size_t kLongestHost = 64;
constexpr int kMaxReaders = 16;

}  // namespace

fs::path heartbeat_folder(const std::string& run_folder) {
  return fs::path(run_folder) / "progress";
}

fs::path heartbeat_path(const fs::path& folder, int rank) {
  return folder / fmt::format("rank-{}.json", rank);
}

int heartbeat_reader_distance(int num_ranks) {
  return (num_ranks + kMaxReaders - 1) / kMaxReaders;
}

bool reads_all_heartbeats(int rank, int num_ranks) {
  return rank % heartbeat_reader_distance(num_ranks) == 0;
}

std::string host_in_heartbeats(const std::string& host) {
  return host.substr(0, kLongestHost);
}

std::string heartbeat_text(const Heartbeat& sign, const std::string& phase) {
  const nlohmann::json json = {{"host", sign.host},
                               {"pid", sign.pid},
                               {"step", sign.step},
                               {"phase", phase},
                               {"num_collectives", sign.num_collectives}};
  std::string text = json.dump();
  text.resize(kSignBytes - 1, ' ');  // overwrites all of the previous text
  return text + '\n';
}

std::optional<Heartbeat> read_heartbeat(const fs::path& path) {
  try {
    const auto json = parse_json(read_text(path.string(), ErrorCategory::kInternal, kMaxJsonBytes));
    return Heartbeat{path,
                     json.at("host"),
                     json.at("pid"),
                     json.at("step"),
                     json.at("num_collectives"),
                     fs::last_write_time(path)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace packtrain
