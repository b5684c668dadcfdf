#include "parallel/communicators/tcp/connection_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstdlib>

#include "framework/core/error.h"
#include "parallel/communicators/message_set.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kAnswerPatience = std::chrono::seconds(30);
constexpr auto kLook = milliseconds(100);  // interval at which a waiting thread checks for an abort
const char* const kYes = "yes";

std::string greeting(const std::string& start, const std::string& channel, int from, int to) {
  return fmt::format("packtrain\n{}\n{}\n{}\n{}", start, channel, from, to);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char letter : text) {
    if (letter == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += letter;
    }
  }
  return lines;
}

}  // namespace

std::string encode(const Peer& peer) {
  return fmt::format("{}\n{}\n{}", peer.address, peer.port, peer.host);
}

Peer decode_peer(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  if (lines.size() != 3) {
    throw Error(ErrorCategory::kDevice, "the store of the job holds what packtrain did not write",
                "Give this job a MASTER_PORT of its own.");
  }
  return {lines[0], static_cast<std::uint16_t>(std::strtol(lines[1].c_str(), nullptr, 10)),
          lines[2]};
}

ConnectionManager::ConnectionManager(const JobLocation& place, const std::string& host)
    : place_(place), rendezvous_(std::make_unique<Rendezvous>(place)) {
  own_.address = rendezvous_->own_address();
  own_.host = host;
  listening_ = listen_at(own_.address);
  own_.port = port_of(listening_);
  answering_ = std::thread([this] { answer_calls(); });
  rendezvous_->publish(encode(own_));
}

ConnectionManager::~ConnectionManager() {
  closing_ = true;
  ::shutdown(listening_.descriptor(), SHUT_RDWR);  // wakes the thread that waits for calls
  answering_.join();
}

void ConnectionManager::finish_start(std::vector<Peer> peers) {
  {
    const std::lock_guard lock(mutex_);
    peers_ = std::move(peers);
  }
  const std::lock_guard lock(store_mutex_);
  rendezvous_.reset();
}

Peer ConnectionManager::find(int rank) {
  {
    const std::lock_guard lock(mutex_);
    if (!peers_.empty()) return peers_[static_cast<std::size_t>(rank)];
  }
  const std::lock_guard lock(store_mutex_);
  return decode_peer(rendezvous_->read(rank));
}

std::string ConnectionManager::host_of(int rank) {
  if (rank == place_.rank) return own_.host;
  const std::lock_guard lock(mutex_);
  if (peers_.empty()) return "a host not known yet";
  return peers_[static_cast<std::size_t>(rank)].host;
}

std::string ConnectionManager::name_of(int rank) {
  return fmt::format("rank {} on {}", rank, host_of(rank));
}

Socket ConnectionManager::connect(const std::string& channel, int rank,
                                  const std::atomic<bool>& given_up, milliseconds patience) {
  if (rank > place_.rank) return call(channel, rank, given_up, patience);
  return wait_for_call({channel, rank}, given_up, patience);
}

Socket ConnectionManager::call(const std::string& channel, int rank,
                               const std::atomic<bool>& given_up, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    // Reads it again each time, because the store may still hold the entry of an earlier start.
    const Peer peer = find(rank);
    std::optional<Socket> socket = dial(peer.address, peer.port, kAnswerPatience);
    if (socket &&
        send_text(*socket, greeting(place_.start, channel, place_.rank, rank), kAnswerPatience)) {
      if (receive_text(*socket, kAnswerPatience) == kYes) return std::move(*socket);
    }
    if (given_up) throw_aborted();
    if (Clock::now() > deadline) {
      throw Error(ErrorCategory::kDevice,
                  fmt::format("rank {} on {} cannot connect to {}, at {} port {}", place_.rank,
                              own_.host, name_of(rank), peer.address, peer.port),
                  "See whether that rank still runs, and that hosts of the job reach each other at "
                  "all ports of TCP.");
    }
    std::this_thread::sleep_for(kLook);
  }
}

Socket ConnectionManager::wait_for_call(const Key& key, const std::atomic<bool>& given_up,
                                        milliseconds patience) {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = called_.find(key);
    if (found != called_.end()) {
      Socket socket = std::move(found->second);
      called_.erase(found);
      return socket;
    }
    if (given_up) throw_aborted();
    if (Clock::now() - begin > patience) break;
    arrived_.wait_for(lock, kLook);
  }
  lock.unlock();
  throw Error(ErrorCategory::kDevice,
              fmt::format("rank {} on {} waited {} s for {} to connect", place_.rank, own_.host,
                          std::chrono::duration_cast<std::chrono::seconds>(patience).count(),
                          name_of(key.second)),
              "See whether that rank still runs.");
}

void ConnectionManager::answer_calls() {
  constexpr auto kLong = std::chrono::hours(1);
  IncomingCalls calls(listening_, kAnswerPatience);
  while (!closing_) {
    for (IncomingCall& call : calls.wait(kLong)) answer(std::move(call));
  }
}

// Keeps the connection when it is for this process and this start, else closes it.
void ConnectionManager::answer(IncomingCall call) {
  const std::vector<std::string> lines = lines_of(call.text);
  if (lines.size() != 5) return;
  const int from = static_cast<int>(std::strtol(lines[3].c_str(), nullptr, 10));
  if (call.text != greeting(place_.start, lines[2], from, place_.rank)) return;
  if (!send_text(call.socket, kYes, kAnswerPatience)) return;
  const std::lock_guard lock(mutex_);
  called_.insert_or_assign(Key{lines[2], from}, std::move(call.socket));
  arrived_.notify_all();
}

}  // namespace packtrain
