// The HTTP server behind /metrics and /healthz: GNU libmicrohttpd with one thread of its own.
// prometheus-cpp's own server (civetweb) is not used: its 100 KB thread stacks are smaller than
// libtorch's static thread-local storage, so its threads cannot start, and old releases overflow on
// long URIs (CVE-2025-55763).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

struct MHD_Daemon;

namespace packtrain {

class Exporter {
 public:
  // Makes the text served; called on the server's thread.
  using Page = std::function<std::string()>;
  // Why the process is not well, "" where it is; called on the server's thread.
  using Trouble = std::function<std::string()>;

  static constexpr unsigned kIdleTimeoutS = 10;

  // Serves GET and HEAD of /metrics and of /healthz (200, or 503 with `trouble`'s answer) on the
  // first free port of `address` from `port` on; anything else is answered 404 or 405. Null when no
  // port is free or the server cannot start; clients that stand still are dropped. Throws
  // Error(kConfig) when the address or port is no address or port of this machine.
  static std::unique_ptr<Exporter> start(const std::string& address, int port, Page page,
                                         Trouble trouble = {},
                                         unsigned idle_timeout_s = kIdleTimeoutS);

  // Drops the connections that are open and waits for the thread, never for a client.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  const std::string& endpoint() const { return endpoint_; }

  // Returns when a page made from now on has been sent whole, but after `timeout_s` at the latest.
  void wait_for_scrape(double timeout_s);

  // For the server's thread. A request is told of when it is answered and when it is over.
  struct Request {
    Exporter* exporter = nullptr;
    std::int64_t page = 0;  // the number of the page it was answered with; 0: none
  };
  std::string make_page(Request& request);
  std::string trouble() const { return trouble_ ? trouble_() : ""; }
  void sent(const Request& request);

 private:
  Exporter(std::string endpoint, Page page, Trouble trouble);

  std::string endpoint_;
  Page page_;
  Trouble trouble_;
  std::mutex mutex_;
  std::condition_variable was_sent_;
  std::int64_t num_pages_ = 0;    // made
  std::int64_t newest_sent_ = 0;  // number of the newest page that was sent whole
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace packtrain
