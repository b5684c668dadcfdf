// How ranks find each other at the start: libtorch's TCPStore, which torchrun also serves.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "parallel/communicators/tcp/job_location.h"

namespace packtrain {

// Time that ranks wait for each other at the start, because of queues and image pulls.
constexpr auto kStartPatience = std::chrono::minutes(15);

// Not thread-safe. Do not use the store after the start, because rank 0 may be gone.
class Rendezvous {
 public:
  // Serves the store on rank 0 unless the launcher does, and connects to it. Throws Error(kDevice)
  // when it cannot be reached within kStartPatience, or when its port is in use.
  explicit Rendezvous(const JobLocation& place);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // publish() stores this rank's text. read() waits for the text of `rank`, at most `patience`,
  // then throws Error(kDevice) naming the rank.
  void publish(const std::string& text);
  std::string read(int rank, std::chrono::milliseconds patience = kStartPatience);

  // An address of this host that other hosts can reach: that of the network interface on the route
  // to the store. It is the loopback only where the store's address is one.
  std::string own_address() const;

 private:
  struct Store;
  JobLocation place_;
  std::unique_ptr<Store> store_;
};

}  // namespace packtrain
