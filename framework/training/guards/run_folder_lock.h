// Who owns a run's folder: RUN/progress/owner, made exclusively before anything else is done there.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "framework/training/guards/file_thread.h"

namespace packtrain {

// A process, so that another one with its number is told from it.
struct FolderOwner {
  std::string host;     // for people
  std::string machine;  // where process numbers mean the same: boot and process namespace
  int pid = 0;
  std::string started;  // the process's start time, in the kernel's ticks
  std::string id;       // random
};

FolderOwner this_process(const std::string& host);

struct LockTimeouts {
  std::chrono::milliseconds own_machine{10'000};  // how long one that lives may take to end
  std::chrono::milliseconds elsewhere{60'000};
  // How long the sign of one elsewhere, which is renewed every second, must stand still.
  std::chrono::milliseconds still{15'000};
};

class RunFolderLock {
 public:
  // Makes RUN/progress/owner for `self`. Of several that try at the same moment one gets it; an
  // owner that is dead is taken over: on this machine a process that is gone or started at another
  // time, elsewhere one whose file's time stood still by our own clock. Waits for one that lives,
  // as it may be on its way out, then throws Error(kConfig) naming it; a folder that cannot be
  // written is Error(kInternal).
  RunFolderLock(const std::string& run_folder, const FolderOwner& self,
                const LockTimeouts& limits = {});
  ~RunFolderLock();  // the folder is nobody's
  RunFolderLock(const RunFolderLock&) = delete;
  RunFolderLock& operator=(const RunFolderLock&) = delete;

 private:
  std::unique_ptr<FileThread> heartbeats_;
};

}  // namespace packtrain
