#include "parallel/communicators/mpi/request_set.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "parallel/communicators/mpi/check.h"
#include "parallel/communicators/mpi/library.h"

namespace packtrain {
namespace {

constexpr int kTag = 1;
// MPI-3 counts are int.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30U;

}  // namespace

RequestSet::~RequestSet() {
  for (MPI_Request& request : requests_) {
    if (request == mpi().request_null) continue;
    mpi().cancel(&request);
    mpi().request_free(&request);
  }
}

void RequestSet::send(const void* data, std::size_t bytes, int to) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, kMaxMessageBytes);
    PACKTRAIN_MPI_CHECK(mpi().isend(static_cast<const std::byte*>(data) + done,
                                    static_cast<int>(part), mpi().byte_type, to, kTag, comm_,
                                    &requests_.emplace_back(mpi().request_null)));
    done += part;
  }
}

void RequestSet::receive(void* data, std::size_t bytes, int from) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, kMaxMessageBytes);
    PACKTRAIN_MPI_CHECK(mpi().irecv(static_cast<std::byte*>(data) + done, static_cast<int>(part),
                                    mpi().byte_type, from, kTag, comm_,
                                    &requests_.emplace_back(mpi().request_null)));
    done += part;
  }
}

void RequestSet::wait() {
  BackoffWait backoff_wait;
  for (;;) {
    int complete = 0;
    PACKTRAIN_MPI_CHECK(mpi().testall(static_cast<int>(requests_.size()), requests_.data(),
                                      &complete, MPI_STATUSES_IGNORE));
    if (complete != 0) break;
    if (aborted_.load(std::memory_order_relaxed)) throw_aborted();
    backoff_wait();
  }
  requests_.clear();
}

void BackoffWait::operator()() {
  constexpr int kSpins = 32;
  constexpr int kYields = 512;
  constexpr auto kSleep = std::chrono::microseconds(50);
  ++num_polls_;
  if (num_polls_ <= kSpins) return;
  if (num_polls_ <= kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace packtrain
