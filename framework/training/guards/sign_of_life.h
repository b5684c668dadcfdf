// What each rank leaves in its run's folder every second (RUN/progress/rank-N.json), for other
// ranks and other jobs to see that it lives and how far it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace packtrain {

struct SignOfLife {
  std::filesystem::path path;
  std::string host;  // as host_in_signs()
  int pid = 0;
  std::int64_t step = 0;
  std::uint64_t num_collectives = 0;        // begun
  std::filesystem::file_time_type written;  // by the clock of the file system
};

std::filesystem::path signs_folder(const std::string& run_folder);
std::filesystem::path sign_path(const std::filesystem::path& folder, int rank);

// A name that a sign has room for.
std::string host_in_signs(const std::string& host);

// The file's text, of the same length each time so that it is written over in one call. `phase`:
// for people.
std::string sign_text(const SignOfLife& sign, const std::string& phase);
// Nothing where there is none yet, or it is half written. Opening the file has file systems of
// several hosts look at the server's copy.
std::optional<SignOfLife> read_sign(const std::filesystem::path& path);

}  // namespace packtrain
