// A scraper made of a socket, so that tests decide which bytes are sent, and when.
#pragma once

#include <string>
#include <string_view>

namespace packtrain {

// An address of this machine that is this process's own: no other takes or leaves its ports.
std::string own_loopback();

class Connection {
 public:
  // `endpoint`: "127.0.0.1:19400" or "[::1]:19400". Throws std::runtime_error when the connection
  // is refused. Reads give up after 100 s.
  explicit Connection(const std::string& endpoint);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(std::string_view bytes);
  // Everything until the server closes the connection.
  std::string receive_all();

 private:
  int descriptor_;
};

struct HttpAnswer {
  int status = 0;  // 0: the server closed without an answer
  std::string headers;
  std::string body;
};

HttpAnswer parse_answer(const std::string& bytes);

// One request on a connection of its own.
HttpAnswer request(const std::string& endpoint, const std::string& method, const std::string& path,
                   const std::string& more = "\r\n");

// Returns the value of a metric in a page, with any labels. Throws when it is not there.
double metric_value(const std::string& page, const std::string& name);

}  // namespace packtrain
