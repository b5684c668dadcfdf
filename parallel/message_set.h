// Messages of one collective between pairs of ranks.
#pragma once

#include <cstddef>

#include "framework/support/error.h"

namespace packtrain {

// Messages between two ranks arrive in the order in which they were given. One thread.
class MessageSet {
 public:
  MessageSet() = default;
  MessageSet(const MessageSet&) = delete;
  MessageSet& operator=(const MessageSet&) = delete;
  virtual ~MessageSet() = default;

  // Any number of bytes; the buffers must stay until wait() has returned. Zero bytes: no message.
  virtual void send(const void* data, std::size_t bytes, int to) = 0;
  virtual void receive(void* data, std::size_t bytes, int from) = 0;
  // Returns when all are complete, however long that takes; more may be given then. Throws
  // Error(kDevice) on a fault, and when the communicator is aborted.
  virtual void wait() = 0;
};

// What a call that waits throws when its communicator is aborted.
[[noreturn]] inline void throw_aborted() {
  throw Error(ErrorCategory::kDevice, "a collective was given up: its communicator was aborted",
              "The error that came first tells why.");
}

}  // namespace packtrain
