// A set of messages under way, waited for without hogging the core.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include "parallel/message_set.h"

namespace packtrain {

// Point-to-point messages of one collective. MPI keeps the order of messages between two ranks, so
// collectives that follow each other need no tags of their own.
class RequestSet final : public MessageSet {
 public:
  // Gives up where `aborted` turns true.
  RequestSet(MPI_Comm comm, const std::atomic<bool>& aborted) : comm_(comm), aborted_(aborted) {}
  // Gives up what is still under way (after an error; the job is about to end).
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

// Waits a little before the next look at something that other ranks must do first: ranks may share
// cores, so after a few looks the core is given away, after many the thread sleeps.
class BackoffWait {
 public:
  void operator()();

 private:
  int num_polls_ = 0;
};

}  // namespace packtrain
