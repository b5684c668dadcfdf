// A set of messages in flight; waiting yields the core.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include "parallel/communicators/message_set.h"

namespace packtrain {

// Point-to-point messages of one collective. MPI keeps the order of messages between two ranks, so
// consecutive collectives need no tags of their own.
class RequestSet final : public MessageSet {
 public:
  // Waiting ends with an error when `aborted` becomes true.
  RequestSet(MPI_Comm comm, const std::atomic<bool>& aborted) : comm_(comm), aborted_(aborted) {}
  // Abandons messages still in flight, after an error that ends the job.
  ~RequestSet() override;

  void send(const void* data, std::size_t bytes, int to) override;
  void receive(void* data, std::size_t bytes, int from) override;
  void add(MPI_Request request) { requests_.push_back(request); }
  void wait() override;

 private:
  MPI_Comm comm_;
  const std::atomic<bool>& aborted_;
  std::vector<MPI_Request> requests_;
};

// Waits a little before the next poll for other ranks. Ranks may share cores: after a few polls the
// thread yields the core, after many it sleeps.
class BackoffWait {
 public:
  void operator()();

 private:
  int num_polls_ = 0;
};

}  // namespace packtrain
