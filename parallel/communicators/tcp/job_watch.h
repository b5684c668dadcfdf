// How the processes of a job without MPI end together. Links form a tree of ranks: a failure goes
// up to rank 0, and the end of the job goes down to all.
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

#include "parallel/communicators/failure_report.h"
#include "parallel/communicators/tcp/connection_manager.h"

namespace packtrain {

// A thread of its own does only this, so that nothing else that hangs in this process delays it.
class JobWatch {
 public:
  // Connects this process with its neighbours in the tree. Throws Error(kDevice) when they do not
  // join.
  JobWatch(ConnectionManager& connection_manager, const std::string& host);
  // Leaves normally after leave(). Without it the others treat this as a failure.
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  // Reports this rank's failure to the job and ends the process with the job's exit code. Rank 0
  // prints the reports of the first two seconds, once when all ranks fail equally. Thread-safe.
  [[noreturn]] void fail(const FailureReport& report);
  // All ranks have reached their end. From now on a closed link is not a lost one.
  void leave() { leaving_ = true; }

 private:
  struct Link {
    int rank = 0;
    Socket socket;
    bool is_parent = false;
    bool done = false;  // its process has left, or is lost
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
  std::optional<FailureReport> own_report_;    // until the thread takes it
  std::map<int, ReportOfRank> reports_;        // rank 0: received reports
  std::optional<Clock::time_point> deadline_;  // rank 0: the time at which it prints them
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace packtrain
