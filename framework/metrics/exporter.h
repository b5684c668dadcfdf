// The HTTP server of /metrics and /healthz: GNU libmicrohttpd with a thread of its own.
// prometheus-cpp's server (civetweb) cannot be used. The 100 KB stacks of its threads are smaller
// than libtorch's static thread-local storage, so its threads cannot start. Old releases also
// overflow on long URIs (CVE-2025-55763).
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
  // Returns the text to serve. Called on the server's thread.
  using Page = std::function<std::string()>;
  // Returns why the process is not healthy, or "". Called on the server's thread.
  using Trouble = std::function<std::string()>;

  static constexpr unsigned kIdleTimeoutS = 10;

  // Serves GET and HEAD on the first free port of `address` from `port` on. /metrics is the page.
  // The path /healthz is 200, or 503 with the answer of `trouble`. Other requests are answered with
  // 404 or 405. Clients that do not proceed are dropped. Returns null when no port is free or the
  // server cannot start. Throws Error(kConfig) when address or port is not one of this machine.
  static std::unique_ptr<Exporter> start(const std::string& address, int port, Page page,
                                         Trouble trouble = {},
                                         unsigned idle_timeout_s = kIdleTimeoutS);

  // Waits up to 0.1 s for clients. Then drops open connections and waits for the thread.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  const std::string& endpoint() const { return endpoint_; }

  // Returns when a page created from now on has been sent completely, but at most after
  // `timeout_s`.
  void wait_for_scrape(double timeout_s);

  // For the server's thread, which calls these when a request is answered and when it ends.
  struct Request {
    Exporter* exporter = nullptr;
    std::int64_t page = 0;  // number of the page in the answer; 0: none
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
  std::int64_t num_pages_ = 0;    // pages created
  std::int64_t newest_sent_ = 0;  // number of the newest page that was sent completely
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace packtrain
