// Connections between the processes of a job: made on first use, one for each pair and channel.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/communicators/tcp/incoming_calls.h"
#include "parallel/communicators/tcp/job_location.h"
#include "parallel/communicators/tcp/rendezvous.h"
#include "parallel/communicators/tcp/socket.h"

namespace packtrain {

// The address of another process.
struct Peer {
  std::string address;
  std::uint16_t port = 0;
  std::string host;
};

class ConnectionManager {
 public:
  // Publishes the address of this process.
  ConnectionManager(const JobLocation& place, const std::string& host);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }

  // Returns this process's end of `channel` to `rank`. The lower rank connects; the other one waits
  // for it, at most `patience`. Throws Error(kDevice) when there is no connection, or when
  // `given_up` becomes true. Thread-safe.
  Socket connect(const std::string& channel, int rank, const std::atomic<bool>& given_up,
                 std::chrono::milliseconds patience);
  // The host of `rank`, as in "rank 3 on node7"; for another rank "a host not known yet" during the
  // start.
  std::string host_of(int rank);
  std::string name_of(int rank);

  // Ends the start: from now on this table has the addresses, by rank, and the store is closed.
  Peer own() const { return own_; }
  void finish_start(std::vector<Peer> peers);

 private:
  using Key = std::pair<std::string, int>;

  Peer find(int rank);
  Socket call(const std::string& channel, int rank, const std::atomic<bool>& given_up,
              std::chrono::milliseconds patience);
  Socket wait_for_call(const Key& key, const std::atomic<bool>& given_up,
                       std::chrono::milliseconds patience);
  void answer_calls();
  void answer(IncomingCall call);

  JobLocation place_;
  std::mutex store_mutex_;                  // held during waits for the store
  std::unique_ptr<Rendezvous> rendezvous_;  // until the end of the start
  std::mutex mutex_;
  std::vector<Peer> peers_;  // [rank], after the start
  Peer own_;
  Socket listening_;
  std::map<Key, Socket> called_;  // connections of other processes that no call here has taken
  std::condition_variable arrived_;
  std::atomic<bool> closing_ = false;
  std::thread answering_;
};

std::string encode(const Peer& peer);
Peer decode_peer(const std::string& text);

}  // namespace packtrain
