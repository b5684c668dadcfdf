#include "parallel/communicators/tcp/exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr int kLookMs = 100;  // interval at which a waiting thread checks for an abort
// The end of a job is sent to all ranks. Until it arrives, a lost connection is not an error of its
// own.
constexpr auto kNewsPatience = std::chrono::seconds(5);
// A rank may compute or save for hours before it enters a collective.
constexpr auto kNoLimit = std::chrono::hours(24 * 365);

}  // namespace

void Links::open(const std::vector<int>& ranks, const std::atomic<bool>& aborted) {
  for (const bool calls : {true, false}) {
    for (const int rank : ranks) {
      if ((rank > connection_manager_.rank()) != calls || sockets_.contains(rank)) continue;
      constexpr auto kCallPatience = std::chrono::minutes(1);
      const std::chrono::milliseconds patience =
          calls ? std::chrono::milliseconds(kCallPatience) : std::chrono::milliseconds(kNoLimit);
      sockets_.emplace(rank, connection_manager_.connect(channel_, rank, aborted, patience));
    }
  }
}

void Exchange::send(const void* data, std::size_t bytes, int to) {
  if (bytes == 0) return;
  // The pointer is never written through: one struct serves messages of both directions.
  auto* bytes_begin = static_cast<std::byte*>(const_cast<void*>(data));
  Message message{.rank = members_[static_cast<std::size_t>(to)],
                  .outgoing = true,
                  .data = bytes_begin,
                  .bytes = bytes};
  std::memcpy(message.length.data(), &bytes, sizeof bytes);
  messages_.push_back(message);
}

void Exchange::receive(void* data, std::size_t bytes, int from) {
  if (bytes == 0) return;
  messages_.push_back({.rank = members_[static_cast<std::size_t>(from)],
                       .data = static_cast<std::byte*>(data),
                       .bytes = bytes});
}

void Exchange::open_links() {
  std::vector<int> ranks;
  for (const Message& message : messages_) ranks.push_back(message.rank);
  links_.open(ranks, aborted_);
  for (Message& message : messages_) message.descriptor = links_.descriptor(message.rank);
}

void Exchange::wait() {
  open_links();
  for (;;) {
    move_all();
    std::erase_if(messages_, [](const Message& m) { return m.done == m.total(); });
    if (messages_.empty()) return;
    wait_for_any();
  }
}

// A connection carries its messages one after another.
void Exchange::move_all() {
  std::set<std::pair<int, bool>> busy;  // rank, outgoing
  for (Message& message : messages_) {
    if (busy.contains({message.rank, message.outgoing})) continue;
    move(message);
    if (message.done < message.total()) busy.emplace(message.rank, message.outgoing);
  }
}

// Transfers as much as possible without waiting.
void Exchange::move(Message& message) {
  while (message.done < message.total()) {
    std::array<iovec, 2> parts{};
    const std::size_t head = std::min(message.done, message.length.size());
    const std::size_t body = message.done - head;
    parts[0] = {message.length.data() + head, message.length.size() - head};
    parts[1] = {message.data + body, message.bytes - body};
    msghdr header{};
    header.msg_iov = parts.data();
    // The length is checked before the data are received into their buffer.
    header.msg_iovlen = message.outgoing || head == message.length.size() ? 2 : 1;
    const ssize_t moved = message.outgoing ? sendmsg(message.descriptor, &header, MSG_NOSIGNAL)
                                           : recvmsg(message.descriptor, &header, 0);
    if (moved > 0) {
      message.done += static_cast<std::size_t>(moved);
      if (!message.outgoing && head < message.length.size()) check_length(message);
      continue;
    }
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    lose(message.rank, moved == 0 ? "it closed the connection" : std::strerror(errno));
  }
}

void Exchange::check_length(const Message& message) {
  if (message.done < message.length.size()) return;
  std::size_t sent = 0;
  std::memcpy(&sent, message.length.data(), sizeof sent);
  if (sent == message.bytes) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("{} sent {} bytes in a collective in which this rank waits for {} of it",
                          links_.connection_manager().name_of(message.rank), sent, message.bytes),
              "The ranks are not at the same place: debug.check_collectives=true names it.");
}

void Exchange::wait_for_any() {
  std::vector<pollfd> entries;
  for (const Message& message : messages_) {
    entries.push_back(
        {message.descriptor, static_cast<short>(message.outgoing ? POLLOUT : POLLIN), 0});
  }
  for (;;) {
    const int ready = poll(entries.data(), entries.size(), kLookMs);
    if (aborted_) throw_aborted();
    if (ready > 0) return;
  }
}

void Exchange::lose(int rank, const std::string& why) {
  const auto deadline = std::chrono::steady_clock::now() + kNewsPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (aborted_) throw_aborted();
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
  }
  throw Error(ErrorCategory::kDevice,
              fmt::format("lost the connection to {} in a collective: {}",
                          links_.connection_manager().name_of(rank), why),
              "What that rank printed, or its host's log, tells why it ended.");
}

}  // namespace packtrain
