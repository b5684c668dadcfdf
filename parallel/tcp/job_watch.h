// How the processes of a job that MPI did not start end together: links along a tree of ranks, over
// which a failure goes up to rank 0 and the end of the job down to all.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/failure_report.h"
#include "parallel/tcp/connection_manager.h"

namespace packtrain {

// The thread of it does nothing else, so nothing that hangs in this process holds it up.
class JobWatch {
 public:
  // Links this process with its neighbours in the tree. Throws Error(kDevice) when they do not
  // come.
  JobWatch(ConnectionManager& connection_manager, const std::string& host);
  // Leaves in peace where leave() was called; else the others take it for a failure.
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  // Hands this rank's failure to the job and ends the process with the job's exit code. Rank 0
  // prints what came in within two seconds, once where all ranks fail alike. Any thread.
  [[noreturn]] void fail(const FailureReport& report);
  // All ranks have come to their end: from now on a link that closes is none lost.
  void leave() { leaving_ = true; }

 private:
  struct Link {
    int rank = 0;
    Socket socket;
    bool is_parent = false;
    bool done = false;  // it said that it leaves, or is lost
  };
  using Clock = std::chrono::steady_clock;

  void link(ConnectionManager& connection_manager);
  void watch();
  void wait_for_event();
  void read(Link& link);
  void lose(Link& link);
  void forward_own_report();
  void take_report(int rank, const std::string& message);
  void finish_if_all_reported();
  void send_shutdown();
  void send_to_children(const std::string& message);
  [[noreturn]] void end_job(int exit_code);

  ConnectionManager& connection_manager_;
  std::string host_;
  std::vector<Link> links_;
  int wake_ = -1;  // an eventfd
  std::mutex mutex_;
  std::optional<FailureReport> own_report_;    // until the thread took it
  std::map<int, ReportOfRank> reports_;        // rank 0: what came in
  std::optional<Clock::time_point> deadline_;  // rank 0: then it is printed
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace packtrain
