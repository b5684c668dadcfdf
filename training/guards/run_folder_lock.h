// Locks a run's folder by RUN/progress/owner, created exclusively before any other file there.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "training/guards/file_thread.h"

namespace packtrain {

// Identifies a process, also when another one reuses its number.
struct FolderOwner {
  std::string host;     // for people
  std::string machine;  // scope of process numbers: boot and process namespace
  int pid = 0;
  std::string started;  // the process's start time, in the kernel's ticks
  std::string id;       // random
};

FolderOwner this_process(const std::string& host);

// Next to the heartbeats. Its owner renews its time every second.
inline constexpr const char* kOwnerFile = "owner";

struct LockTimeouts {
  std::chrono::milliseconds own_machine{10'000};  // how long a living owner may take to end
  std::chrono::milliseconds elsewhere{60'000};
  // How long the file time of an owner on another machine must stay unchanged. It changes every
  // second.
  std::chrono::milliseconds still{15'000};
};

class RunFolderLock {
 public:
  // Creates RUN/progress/owner for `self`. When several processes try, one succeeds. A dead owner
  // is replaced. On this machine an owner is dead when its process is gone or has another start
  // time. On another machine it is dead when its file's time stays unchanged by our own clock.
  // Waits for a living owner, which may be about to end, then throws Error(kConfig) naming it.
  // Throws Error(kInternal) when the folder cannot be written.
  RunFolderLock(const std::string& run_folder, const FolderOwner& self,
                const LockTimeouts& limits = {});
  ~RunFolderLock();  // releases the folder
  RunFolderLock(const RunFolderLock&) = delete;
  RunFolderLock& operator=(const RunFolderLock&) = delete;

 private:
  std::unique_ptr<FileThread> heartbeats_;
};

}  // namespace packtrain
