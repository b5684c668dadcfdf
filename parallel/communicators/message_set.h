// Messages of one collective between pairs of ranks.
#pragma once

#include <cstddef>

#include "framework/core/error.h"

namespace packtrain {

// Messages between two ranks arrive in the order of their calls. Not thread-safe.
class MessageSet {
 public:
  MessageSet() = default;
  MessageSet(const MessageSet&) = delete;
  MessageSet& operator=(const MessageSet&) = delete;
  virtual ~MessageSet() = default;

  // Any number of bytes. The buffers must stay valid until wait() returns. Zero bytes: no message.
  virtual void send(const void* data, std::size_t bytes, int to) = 0;
  virtual void receive(void* data, std::size_t bytes, int from) = 0;
  // Returns when all messages are complete, without a time limit. Then more may be added. Throws
  // Error(kDevice) on a fault, and when the communicator is aborted.
  virtual void wait() = 0;
};

// The error of a waiting call whose communicator is aborted.
[[noreturn]] inline void throw_aborted() {
  throw Error(ErrorCategory::kDevice, "a collective was given up: its communicator was aborted",
              "The error that came first tells why.");
}

}  // namespace packtrain
