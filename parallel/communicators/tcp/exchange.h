// The messages of one collective, all in flight at the same time, over the connections of a
// communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicators/message_set.h"
#include "parallel/communicators/tcp/connection_manager.h"

namespace packtrain {

// The connections of one communicator, by rank of the world, made on first use. Not thread-safe.
class Links {
 public:
  Links(ConnectionManager& connection_manager, std::string channel)
      : connection_manager_(connection_manager), channel_(std::move(channel)) {}

  // Opens missing connections. Ranks first connect, then accept, so that ranks that open at the
  // same time never wait for each other in a circle.
  void open(const std::vector<int>& ranks, const std::atomic<bool>& aborted);
  int descriptor(int rank) const { return sockets_.at(rank).descriptor(); }
  ConnectionManager& connection_manager() { return connection_manager_; }
  const std::string& channel() const { return channel_; }

 private:
  ConnectionManager& connection_manager_;
  std::string channel_;
  std::map<int, Socket> sockets_;
};

class Exchange final : public MessageSet {
 public:
  // Exchanges between `members`, which are ranks of the world; a message names one by its index.
  // Waiting ends with an error when `aborted` becomes true. All arguments must outlive it.
  Exchange(Links& links, std::span<const int> members, const std::atomic<bool>& aborted)
      : links_(links), members_(members), aborted_(aborted) {}

  void send(const void* data, std::size_t bytes, int to) override;
  void receive(void* data, std::size_t bytes, int from) override;
  // Sleeps while it waits. Throws also when a peer sends another number of bytes.
  void wait() override;

 private:
  struct Message {
    int rank = 0;  // of the world
    bool outgoing = false;
    int descriptor = -1;
    std::byte* data = nullptr;  // only read for an outgoing one
    std::size_t bytes = 0;
    std::size_t done = 0;  // bytes transferred, with the length in front
    std::array<std::byte, sizeof(std::size_t)> length{};
    std::size_t total() const { return length.size() + bytes; }
  };

  void open_links();
  void move_all();
  void move(Message& message);
  void check_length(const Message& message);
  void wait_for_any();
  [[noreturn]] void lose(int rank, const std::string& why);

  Links& links_;
  std::span<const int> members_;
  const std::atomic<bool>& aborted_;
  std::vector<Message> messages_;  // the incomplete ones
};

}  // namespace packtrain
