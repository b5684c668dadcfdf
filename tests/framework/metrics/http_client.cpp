#include "tests/framework/metrics/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <stdexcept>

namespace packtrain {
namespace {

int connect_to(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  const auto port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(colon + 1))));
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v6 = endpoint.front() == '[';
  int result = -1;
  int descriptor = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (is_v6) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port;
    inet_pton(AF_INET6, endpoint.substr(1, colon - 2).c_str(), &v6.sin6_addr);
    result = connect(descriptor, reinterpret_cast<sockaddr*>(&v6), sizeof v6);
  } else {
    v4.sin_family = AF_INET;
    v4.sin_port = port;
    inet_pton(AF_INET, endpoint.substr(0, colon).c_str(), &v4.sin_addr);
    result = connect(descriptor, reinterpret_cast<sockaddr*>(&v4), sizeof v4);
  }
  if (result != 0) {
    close(descriptor);
    throw std::runtime_error("cannot connect to " + endpoint);
  }
  return descriptor;
}

}  // namespace

std::string own_loopback() {
  const int id = getpid();
  return fmt::format("127.{}.{}.{}", (id >> 16) % 256, (id >> 8) % 256, id % 256);
}

Connection::Connection(const std::string& endpoint) : descriptor_(connect_to(endpoint)) {
  const timeval limit{.tv_sec = 100, .tv_usec = 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

Connection::~Connection() {
  close(descriptor_);
}

void Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed: what it answered can still be read
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string Connection::receive_all() {
  std::string bytes;
  char buffer[4096];
  for (;;) {
    const ssize_t got = recv(descriptor_, buffer, sizeof buffer, 0);
    if (got <= 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

HttpAnswer parse_answer(const std::string& bytes) {
  HttpAnswer answer;
  const std::size_t end = bytes.find("\r\n\r\n");
  if (!bytes.starts_with("HTTP/1.1 ") || end == std::string::npos) return answer;
  answer.status = std::stoi(bytes.substr(9, 3));
  answer.headers = bytes.substr(0, end + 2);
  answer.body = bytes.substr(end + 4);
  return answer;
}

HttpAnswer request(const std::string& endpoint, const std::string& method, const std::string& path,
                   const std::string& more) {
  Connection connection(endpoint);
  connection.send(method + " " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n" + more);
  return parse_answer(connection.receive_all());
}

double metric_value(const std::string& page, const std::string& name) {
  const std::string begin = "\n" + name + "{";
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) throw std::runtime_error("the page has no metric " + name);
  const std::size_t value = page.find("} ", at);
  return std::stod(page.substr(value + 2));
}

}  // namespace packtrain
