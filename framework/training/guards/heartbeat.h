// What each rank leaves in its run's folder every second (RUN/progress/rank-N.json), for other
// ranks and other jobs to see that it lives and how far it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace packtrain {

struct Heartbeat {
  std::filesystem::path path;
  std::string host;  // as host_in_heartbeats()
  int pid = 0;
  std::int64_t step = 0;
  std::uint64_t num_collectives = 0;        // begun
  std::filesystem::file_time_type written;  // by the clock of the file system
};

std::filesystem::path heartbeat_folder(const std::string& run_folder);
std::filesystem::path heartbeat_path(const std::filesystem::path& folder, int rank);

// A name that a sign has room for.
std::string host_in_heartbeats(const std::string& host);

// The file's text, of the same length each time so that it is written over in one call. `phase`:
// for people.
std::string heartbeat_text(const Heartbeat& sign, const std::string& phase);
// Nothing where there is none yet, or it is half written. Opening the file has file systems of
// several hosts look at the server's copy.
std::optional<Heartbeat> read_heartbeat(const std::filesystem::path& path);

}  // namespace packtrain
