// The messages of one collective, all under way at once, over the connections of a communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/message_set.h"
#include "parallel/tcp/connection_manager.h"

namespace packtrain {

// The connections of one communicator, by rank of the world, made when first needed. One thread.
class Links {
 public:
  Links(ConnectionManager& connection_manager, std::string channel)
      : connection_manager_(connection_manager), channel_(std::move(channel)) {}

  // Connects with those that are not yet: first calls, then waits to be called, so that ranks that
  // do this at the same time never wait for each other in a circle.
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
  // Between `members`, ranks of the world; a message names one by its place among them. Gives up
  // where `aborted` turns true. All given must outlive it.
  Exchange(Links& links, std::span<const int> members, const std::atomic<bool>& aborted)
      : links_(links), members_(members), aborted_(aborted) {}

  void send(const void* data, std::size_t bytes, int to) override;
  void receive(void* data, std::size_t bytes, int from) override;
  // The core is free meanwhile. Throws also when a peer sends another number of bytes.
  void wait() override;

 private:
  struct Message {
    int rank = 0;  // of the world
    bool outgoing = false;
    int descriptor = -1;
    std::byte* data = nullptr;  // of an outgoing one only read
    std::size_t bytes = 0;
    std::size_t done = 0;  // with the length in front
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
  std::vector<Message> messages_;  // those that are not complete
};

}  // namespace packtrain
