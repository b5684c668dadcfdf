#include "parallel/communicators/tcp/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr std::uint32_t kMaxText = 1U << 20U;

[[noreturn]] void throw_error(const std::string& what, const std::string& why) {
  throw Error(ErrorCategory::kDevice, fmt::format("{}: {}", what, why),
              "See MASTER_ADDR, and the network and names of this host.");
}

Addresses resolve(const std::string& host, std::uint16_t port, int flags, int kind) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = kind;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int fault = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (fault != 0) throw_error(fmt::format("host '{}' cannot be found", host), gai_strerror(fault));
  return {found, &freeaddrinfo};
}

std::string numbers_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text.data();
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

// The local address of the system's route to `way`; "" and errno without a route.
std::string own_address_towards(const addrinfo& way) {
  const Socket socket(::socket(way.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  // Connecting a datagram socket sends nothing: it only selects the route.
  if (!socket || ::connect(socket.descriptor(), way.ai_addr, way.ai_addrlen) != 0 ||
      getsockname(socket.descriptor(), address, &length) != 0) {
    return "";
  }
  return numbers_of(address, length);
}

// The address of the default route's interface, else of the first that is up, or "". The first may
// be a bridge of containers, which has the same address on all hosts.
std::string address_of_a_card() {
  constexpr const char* kElsewhere = "192.0.2.1";  // of RFC 5737's documentation network
  const Addresses elsewhere = resolve(kElsewhere, 1, AI_NUMERICHOST, SOCK_DGRAM);
  std::string routed = own_address_towards(*elsewhere);
  if (!routed.empty() && !is_loopback(routed)) return routed;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* card = all; card != nullptr; card = card->ifa_next) {
    if (card->ifa_addr == nullptr || card->ifa_addr->sa_family != AF_INET) continue;
    if ((card->ifa_flags & IFF_UP) == 0 || (card->ifa_flags & IFF_LOOPBACK) != 0) continue;
    return numbers_of(card->ifa_addr, sizeof(sockaddr_in));
  }
  return "";
}

// A peer whose host is gone is detected within a minute, idle or not.
void watch_peer(int descriptor) {
  constexpr int kIdle = 20;
  constexpr int kInterval = 10;
  constexpr int kProbes = 4;
  constexpr int kUnansweredMs = 60000;
  const int on = 1;
  const auto set = [descriptor](int level, int option, int value) {
    (void)setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, on);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kInterval);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMs);
  set(IPPROTO_TCP, TCP_NODELAY, on);
}

bool wait_for(int descriptor, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{descriptor, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<long>(left, 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool may_be_repeated(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::string address_towards(const std::string& host, std::uint16_t port) {
  const Addresses found = resolve(host, port, 0, SOCK_DGRAM);
  std::string why = "no address";
  for (const addrinfo* way = found.get(); way != nullptr; way = way->ai_next) {
    std::string mine = own_address_towards(*way);
    if (mine.empty()) {
      why = std::strerror(errno);
      continue;
    }
    if (!is_loopback(mine) || is_loopback(host) || host == "localhost") return mine;
    const std::string card = address_of_a_card();
    return card.empty() ? mine : card;
  }
  throw_error(fmt::format("host '{}' cannot be reached", host), why);
}

Socket listen_at(const std::string& address) {
  const Addresses found = resolve(address, 0, AI_NUMERICHOST, SOCK_STREAM);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::bind(socket.descriptor(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.descriptor(), SOMAXCONN) != 0) {
    throw_error(fmt::format("cannot listen at {}", address), std::strerror(errno));
  }
  return socket;
}

std::uint16_t port_of(const Socket& listening) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (getsockname(listening.descriptor(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    throw_error("getsockname", std::strerror(errno));
  }
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
}

std::optional<Socket> accept_from(const Socket& listening, std::chrono::milliseconds patience) {
  if (!wait_for(listening.descriptor(), POLLIN, Clock::now() + patience)) return std::nullopt;
  Socket socket(::accept4(listening.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return std::nullopt;
  watch_peer(socket.descriptor());
  return socket;
}

std::optional<Socket> dial(const std::string& address, std::uint16_t port,
                           std::chrono::milliseconds patience) {
  const Addresses found = resolve(address, port, AI_NUMERICHOST, SOCK_STREAM);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_error("cannot open a socket", std::strerror(errno));
  watch_peer(socket.descriptor());
  if (::connect(socket.descriptor(), found->ai_addr, found->ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS || !wait_for(socket.descriptor(), POLLOUT, Clock::now() + patience)) {
    return std::nullopt;
  }
  int fault = 0;
  socklen_t length = sizeof fault;
  if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &fault, &length) != 0 || fault != 0) {
    return std::nullopt;
  }
  return socket;
}

TextReceiver::State TextReceiver::read(const Socket& socket) {
  for (;;) {
    if (bytes_.size() == end_ && has_length_) return State::kComplete;
    if (bytes_.size() == end_) {
      std::uint32_t length = 0;
      std::memcpy(&length, bytes_.data(), sizeof length);
      if (length > kMaxText) return State::kBroken;
      has_length_ = true;
      end_ += length;
      continue;
    }
    std::array<char, 4096> part{};
    const std::size_t wanted = std::min(part.size(), end_ - bytes_.size());
    const ssize_t received = recv(socket.descriptor(), part.data(), wanted, 0);
    if (received > 0) {
      bytes_.append(part.data(), static_cast<std::size_t>(received));
    } else if (received < 0 && may_be_repeated(errno)) {
      return State::kIncomplete;
    } else {
      return State::kBroken;
    }
  }
}

std::string TextReceiver::text() const {
  return bytes_.substr(sizeof(std::uint32_t));
}

bool send_text(const Socket& socket, const std::string& text, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string message(sizeof length, '\0');
  std::memcpy(message.data(), &length, sizeof length);
  message += text;
  for (std::size_t done = 0; done < message.size();) {
    const ssize_t sent =
        ::send(socket.descriptor(), message.data() + done, message.size() - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
    } else if (sent == 0 || !may_be_repeated(errno) ||
               !wait_for(socket.descriptor(), POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

std::optional<std::string> receive_text(const Socket& socket, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  TextReceiver receiver;
  for (;;) {
    switch (receiver.read(socket)) {
      case TextReceiver::State::kComplete:
        return receiver.text();
      case TextReceiver::State::kBroken:
        return std::nullopt;
      case TextReceiver::State::kIncomplete:
        if (!wait_for(socket.descriptor(), POLLIN, deadline)) return std::nullopt;
    }
  }
}

}  // namespace packtrain
