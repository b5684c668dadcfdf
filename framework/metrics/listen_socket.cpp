#include "framework/metrics/listen_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr int kBacklog = 256;  // with a full backlog a client retries after a second

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  sockaddr_in* v4() { return reinterpret_cast<sockaddr_in*>(&storage); }
  sockaddr_in6* v6() { return reinterpret_cast<sockaddr_in6*>(&storage); }
  bool is_v6() const { return storage.ss_family == AF_INET6; }

  void set_port(int port) {
    const auto network_port = htons(static_cast<std::uint16_t>(port));
    is_v6() ? v6()->sin6_port = network_port : v4()->sin_port = network_port;
  }
  int port() { return ntohs(is_v6() ? v6()->sin6_port : v4()->sin_port); }
};

SocketAddress parse(const std::string& text) {
  SocketAddress address;
  if (inet_pton(AF_INET, text.c_str(), &address.v4()->sin_addr) == 1) {
    address.storage.ss_family = AF_INET;
    address.size = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, text.c_str(), &address.v6()->sin6_addr) == 1) {
    address.storage.ss_family = AF_INET6;
    address.size = sizeof(sockaddr_in6);
  } else {
    throw Error(ErrorCategory::kConfig,
                fmt::format("metrics.address: got '{}', want an IPv4 or IPv6 address", text),
                "write 127.0.0.1 for this machine only, 0.0.0.0 for all its interfaces");
  }
  return address;
}

// Returns 0, or the errno of the failed call.
int listen_on(int descriptor, SocketAddress& address) {
  // A port in TIME_WAIT of an earlier run is free. A port with a listener is not.
  const int on = 1;
  if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return errno;
  if (bind(descriptor, address.get(), address.size) != 0) return errno;
  // With SO_REUSEADDR two processes can bind a port, but only one can listen.
  if (listen(descriptor, kBacklog) != 0) return errno;
  if (getsockname(descriptor, address.get(), &address.size) != 0) return errno;
  return 0;
}

bool means_wrong_address(int error) {
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

[[noreturn]] void throw_wrong_address(const std::string& address, int error) {
  throw Error(ErrorCategory::kConfig,
              fmt::format("metrics.address: cannot listen on '{}' here: {}", address,
                          std::generic_category().message(error)),
              "use an address of this machine: 127.0.0.1, or 0.0.0.0 for all its interfaces");
}

}  // namespace

std::optional<ListenSocket> ListenSocket::open(const std::string& address, int port) {
  if (port < 0 || port > kMaxPort) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("metrics.port: got {}, want 0 to {}", port, kMaxPort));
  }
  SocketAddress wanted = parse(address);
  const int last_port = std::min(port + kMaxPortTries - 1, kMaxPort);
  for (int candidate = port; candidate <= last_port; ++candidate) {
    const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    ListenSocket result(socket(wanted.storage.ss_family, type, 0));
    wanted.set_port(candidate);
    const int error = result.descriptor_ < 0 ? errno : listen_on(result.descriptor_, wanted);
    if (means_wrong_address(error)) throw_wrong_address(address, error);
    if (error != 0) continue;
    result.endpoint_ = wanted.is_v6() ? fmt::format("[{}]:{}", address, wanted.port())
                                      : fmt::format("{}:{}", address, wanted.port());
    return result;
  }
  return std::nullopt;
}

ListenSocket::ListenSocket(ListenSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), endpoint_(std::move(other.endpoint_)) {}

ListenSocket::~ListenSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace packtrain
