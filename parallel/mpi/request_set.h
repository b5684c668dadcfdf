// A set of messages under way, waited for without hogging the core.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <vector>

namespace packtrain {

// Point-to-point messages of one collective. Messages between two ranks arrive in the order in
// which they were given, so collectives that follow each other need no tags of their own.
class RequestSet {
 public:
  RequestSet(MPI_Comm comm, const std::atomic<bool>& aborted) : comm_(comm), aborted_(aborted) {}
  // Gives up what is still under way (after an error; the job is about to end).
  ~RequestSet();
  RequestSet(const RequestSet&) = delete;
  RequestSet& operator=(const RequestSet&) = delete;

  // Any number of bytes; the buffers must stay until wait() has returned. Zero bytes: no message.
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  void add(MPI_Request request) { requests_.push_back(request); }

  // Returns when all are complete. Throws Error(kDevice) on a fault or when `aborted` turns true.
  void wait();

 private:
  MPI_Comm comm_;
  const std::atomic<bool>& aborted_;
  std::vector<MPI_Request> requests_;
};

// Waits a little before the next look at something that other ranks must do first: ranks may share
// cores, so after a few looks the core is given away, after many the thread sleeps.
class PoliteWait {
 public:
  void operator()();

 private:
  int looks_ = 0;
};

}  // namespace packtrain
