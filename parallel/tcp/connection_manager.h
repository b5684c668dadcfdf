// Connections between the processes of a job: made when first asked for, one a pair and channel.
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

#include "parallel/tcp/job_location.h"
#include "parallel/tcp/rendezvous.h"
#include "parallel/tcp/socket.h"

namespace packtrain {

// How another process is reached.
struct Peer {
  std::string address;
  std::uint16_t port = 0;
  std::string host;
};

class ConnectionManager {
 public:
  // Publishes how this process is reached.
  ConnectionManager(const JobLocation& place, const std::string& host);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }

  // This process's end of `channel` to `rank`: the lower rank calls, the other one waits to be
  // called, as long as `patience`. Throws Error(kDevice) when it cannot be had, or when `given_up`
  // turns true. Any thread.
  Socket connect(const std::string& channel, int rank, const std::atomic<bool>& given_up,
                 std::chrono::milliseconds patience);
  // Its host, of another rank "a host not known yet" during the start; "rank 3 on node7".
  std::string host_of(int rank);
  std::string name_of(int rank);

  // The end of the start: from now on the ranks are reached as this table says, by rank, and the
  // store is left.
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
  void answer(Socket socket);

  JobLocation place_;
  std::mutex store_mutex_;                  // held while the store is waited for
  std::unique_ptr<Rendezvous> rendezvous_;  // until the start is over
  std::mutex mutex_;
  std::vector<Peer> peers_;  // [rank], from then on
  Peer own_;
  Socket listening_;
  std::map<Key, Socket> called_;  // what other processes have opened and no call here has taken yet
  std::condition_variable arrived_;
  std::atomic<bool> closing_ = false;
  std::thread answering_;
};

std::string encode(const Peer& peer);
Peer decode_peer(const std::string& text);

}  // namespace packtrain
