// TCP sockets: open, connect, and exchange small messages.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace packtrain {

// Owns a non-blocking file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// The numeric address of this host on the route to `host`. It is a loopback address only where
// `host` is written as one. This host's own table may map the name to its loopback. The result is
// then the address of the default route's interface, else of the first one. Throws Error(kDevice)
// when `host` cannot be resolved or reached.
std::string address_towards(const std::string& host, std::uint16_t port);

// Listens at a port of the system's choice. Throws Error(kDevice).
Socket listen_at(const std::string& address);
std::uint16_t port_of(const Socket& listening);
// Waits up to `patience` for the next connection; returns nothing when none came.
std::optional<Socket> accept_from(const Socket& listening, std::chrono::milliseconds patience);
// Returns nothing when no process answers there within `patience`.
std::optional<Socket> dial(const std::string& address, std::uint16_t port,
                           std::chrono::milliseconds patience);

// Receives one text that send_text() sends, in as many parts as it comes in. Never waits.
class TextReceiver {
 public:
  // kBroken: the other end is gone, or the data are no text.
  enum class State { kIncomplete, kComplete, kBroken };

  State read(const Socket& socket);
  std::string text() const;  // after kComplete

 private:
  std::string bytes_;  // with the length in front
  bool has_length_ = false;
  std::size_t end_ = sizeof(std::uint32_t);  // of the part whose size is known
};

// A text of up to 1 MiB, preceded by its length. Returns false when the other end is gone or slower
// than `patience`, or when the data are no text.
bool send_text(const Socket& socket, const std::string& text, std::chrono::milliseconds patience);
std::optional<std::string> receive_text(const Socket& socket, std::chrono::milliseconds patience);

}  // namespace packtrain
