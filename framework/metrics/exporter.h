// The HTTP server behind /metrics: GNU libmicrohttpd with one thread of its own. prometheus-cpp's
// own server (civetweb) is not used: its 100 KB thread stacks are smaller than libtorch's static
// thread-local storage, so its threads cannot start, and old releases overflow on long URIs
// (CVE-2025-55763).
#pragma once

#include <functional>
#include <memory>
#include <string>

struct MHD_Daemon;

namespace packtrain {

class Exporter {
 public:
  // Makes the text served; called on the server's thread.
  using Page = std::function<std::string()>;

  // Serves GET and HEAD of /metrics on the first free port of `address` from `port` on; anything
  // else is answered 404 or 405. Null when no port is free or the server cannot start; throws
  // Error(kConfig) when the address or port is no address or port of this machine.
  static std::unique_ptr<Exporter> start(const std::string& address, int port, Page page);

  // Drops the connections that are open and waits for the thread, never for a client.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  const std::string& endpoint() const { return endpoint_; }

 private:
  Exporter(std::string endpoint, Page page);

  std::string endpoint_;
  Page page_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace packtrain
