// Tests that a job waits for another one that still writes heartbeats in its folder.
#include "training/guards/folder_in_use.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/helpers/temporary_folder.h"
#include "training/guards/heartbeat.h"
#include "training/guards/run_folder_lock.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using test::TemporaryFolder;
using Clock = std::chrono::steady_clock;

// Replaces a file, as a rank does. A reader never sees it empty or with the time of the real clock.
void write_at(const std::string& run, const fs::path& path, const std::string& text,
              std::chrono::seconds late) {
  const fs::path unseen = fs::path(run) / "unseen";
  test::write_bytes(unseen, text);
  fs::last_write_time(unseen, fs::file_time_type::clock::now() - late);
  fs::rename(unseen, path);
}

// Writes the files of a rank on another host and of the folder's owner, for `lifetime`. The clock
// of their file system is `late`.
void write_heartbeats(const std::string& run, milliseconds lifetime, std::chrono::seconds late) {
  Heartbeat heartbeat;
  heartbeat.host = "there";
  heartbeat.pid = 1;
  const fs::path folder = heartbeat_folder(run);
  const auto end = Clock::now() + lifetime;
  do {
    write_at(run, heartbeat_path(folder, 0), heartbeat_text(heartbeat, "step"), late);
    write_at(run, folder / kOwnerFile, "{}", late);
    std::this_thread::sleep_for(milliseconds(200));
  } while (Clock::now() < end);
}

milliseconds time_to_wait(std::chrono::seconds late) {
  constexpr milliseconds kLifetime{1500};
  const TemporaryFolder run;
  fs::create_directories(heartbeat_folder(run.path()));
  write_heartbeats(run.path(), milliseconds(0), late);
  std::jthread other([&] { write_heartbeats(run.path(), kLifetime, late); });
  const std::unique_ptr<World> world = join_world();
  const auto begin = Clock::now();
  wait_for_folder(run.path(), *world);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

TEST(FolderInUse, WaitsForALivingJobWhereTheClockOfTheFileSystemIsLate) {
  EXPECT_GE(time_to_wait(std::chrono::seconds(600)), milliseconds(1500));
}

TEST(FolderInUse, DoesNotWaitForHeartbeatsOfAJobThatEndedLongAgo) {
  const TemporaryFolder run;
  const fs::path folder = heartbeat_folder(run.path());
  fs::create_directories(folder);
  write_heartbeats(run.path(), milliseconds(0), std::chrono::seconds(600));
  fs::last_write_time(folder / kOwnerFile, fs::file_time_type::clock::now());
  const std::unique_ptr<World> world = join_world();
  const auto begin = Clock::now();
  wait_for_folder(run.path(), *world);
  EXPECT_LT(Clock::now() - begin, milliseconds(1500));
}

}  // namespace
}  // namespace packtrain
