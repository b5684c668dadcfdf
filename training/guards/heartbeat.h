// The heartbeat file that each rank rewrites every second (RUN/progress/rank-N.json). Other ranks
// and jobs read from it that the rank is alive, and its step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace packtrain {

struct Heartbeat {
  std::filesystem::path path;
  std::string host;  // from host_in_heartbeats()
  int pid = 0;
  std::int64_t step = 0;
  std::uint64_t num_collectives = 0;        // begun
  std::filesystem::file_time_type written;  // by the clock of the file system
};

std::filesystem::path heartbeat_folder(const std::string& run_folder);
std::filesystem::path heartbeat_path(const std::filesystem::path& folder, int rank);

// Ranks that may read the heartbeats of all: at most 16, from 0 on in equal distances. All ranks of
// a job often stop at the same time, and each reading all would open the square of their number of
// files.
int heartbeat_reader_distance(int num_ranks);
bool reads_all_heartbeats(int rank, int num_ranks);

// The host's name, shortened to fit into a heartbeat.
std::string host_in_heartbeats(const std::string& host);

// The file's text. It always has the same length, so that one call overwrites it. `phase`: for
// people.
std::string heartbeat_text(const Heartbeat& sign, const std::string& phase);
// Nothing when there is no file, or an incomplete one. Opening the file makes network file systems
// read the server's copy.
std::optional<Heartbeat> read_heartbeat(const std::filesystem::path& path);

}  // namespace packtrain
