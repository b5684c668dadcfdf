// Where ranks find each other at the start: libtorch's TCPStore, which torchrun serves too.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "parallel/tcp/job_location.h"

namespace packtrain {

// How long ranks wait for each other at the start: queues and pulled images take their time.
constexpr auto kStartPatience = std::chrono::minutes(15);

// One thread at a time. The store must not be used after the start: rank 0 may be gone.
class Rendezvous {
 public:
  // Serves the store where this is rank 0 and the launcher does not, and connects to it. Throws
  // Error(kDevice) when it cannot be reached within kStartPatience, or its port is taken.
  explicit Rendezvous(const JobLocation& place);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // What this rank says, and what `rank` said: waits for it, at most `patience`; then
  // Error(kDevice) that names the rank.
  void publish(const std::string& text);
  std::string read(int rank, std::chrono::milliseconds patience = kStartPatience);

  // An address of this host by which other hosts reach it: of the network card on the way to the
  // store; the loopback only where the store was named by it.
  std::string own_address() const;

 private:
  struct Store;
  JobLocation place_;
  std::unique_ptr<Store> store_;
};

}  // namespace packtrain
