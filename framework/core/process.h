// A child process: started without a shell, in a process group of its own, ended with the object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace packtrain {

struct ProcessOptions {
  std::vector<std::string> words;  // the program, by path or found on PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables = {};  // added to the environment
  // Open descriptors for its standard output and error. -1: /dev/null. Standard input is /dev/null.
  int output = -1;
  int error_output = -1;
  bool low_priority = false;  // of the processor
  // SIGTERM waits until the program unblocks it: one that has not installed its handler is not
  // ended.
  bool blocks_sigterm = false;
};

// How a process ended.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  // that ended it, or 0

  bool succeeded() const { return exit_code == 0 && signal == 0; }
  std::string describe() const;  // "exit code 3", "signal 9"
};

class Process {
 public:
  // The child inherits no other descriptor, and no other blocked signal. Signals that this program
  // may handle or ignore have their default action there. It has no variable that makes a program
  // take itself for a rank of this job. Throws Error(kConfig) when it cannot be started.
  explicit Process(const ProcessOptions& options);
  // Kills the group when the process has not ended.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // How it ended, or nothing when it runs after `limit`.
  std::optional<ProcessEnd> wait(std::chrono::duration<double> limit);
  ProcessEnd wait();
  // Sends SIGTERM to its group. Sends SIGKILL to what is left of the group when the process has
  // ended, or after `grace`.
  ProcessEnd end(std::chrono::duration<double> grace);

 private:
  bool has_ended() const;
  bool ends_within(std::chrono::duration<double> limit) const;
  void send(int signal) const;

  std::string name_;
  pid_t id_ = 0;
  std::optional<ProcessEnd> end_;
};

// Kills all children of this process that are Process objects. For a process that ends without
// unwinding. Safe in a signal handler.
void kill_children() noexcept;

}  // namespace packtrain
