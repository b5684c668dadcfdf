// A listening TCP socket on the first free port.
#pragma once

#include <optional>
#include <string>

namespace packtrain {

class ListenSocket {
 public:
  // Limits of the ports tried from `port` upward.
  static constexpr int kMaxPort = 65535;
  static constexpr int kMaxPortTries = 100;

  // Listens on the first free port of `address` (IPv4 or IPv6 text) from `port` on. With port 0 the
  // system chooses. Returns nothing when no port is free. Throws Error(kConfig) when `address` is
  // not an address of this machine, or `port` is outside 0..65535.
  static std::optional<ListenSocket> open(const std::string& address, int port);

  ~ListenSocket();
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&&) = delete;
  ListenSocket(const ListenSocket&) = delete;
  ListenSocket& operator=(const ListenSocket&) = delete;

  int descriptor() const { return descriptor_; }
  // "127.0.0.1:19400", "[::1]:19400"
  const std::string& endpoint() const { return endpoint_; }

 private:
  explicit ListenSocket(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
  std::string endpoint_;
};

}  // namespace packtrain
