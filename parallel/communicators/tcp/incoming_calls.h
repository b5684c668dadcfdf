// Connections of other processes until each has sent its first text.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "parallel/communicators/tcp/socket.h"

namespace packtrain {

struct IncomingCall {
  Socket socket;
  std::string text;  // what the caller sent first
};

// Reads from all callers at the same time. One that sends nothing, such as a port scanner or a
// health check, does not delay the others. Not thread-safe.
class IncomingCalls {
 public:
  // `listening` must outlive the object. A caller that has not sent its text within `patience` is
  // closed.
  IncomingCalls(const Socket& listening, std::chrono::milliseconds patience)
      : listening_(listening), patience_(patience) {}

  // Waits for an event of a caller, at most `longest`. Returns the calls whose text is complete.
  // Returns immediately after a shutdown of `listening`.
  std::vector<IncomingCall> wait(std::chrono::milliseconds longest);

 private:
  using Clock = std::chrono::steady_clock;

  struct Caller {
    Socket socket;
    TextReceiver receiver;
    Clock::time_point deadline;
  };

  // The time until the next deadline is the result, at most `longest`.
  std::chrono::milliseconds longest_wait(std::chrono::milliseconds longest) const;
  void accept_caller();
  std::vector<IncomingCall> take_complete();

  const Socket& listening_;
  std::chrono::milliseconds patience_;
  Clock::time_point accepts_from_;  // in the future after an accept that failed
  std::vector<Caller> callers_;
};

}  // namespace packtrain
