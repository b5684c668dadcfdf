// Communication between ranks: one interface, and one folder for each backend (local, mpi, tcp,
// nccl). Depends only on framework/core.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/backend.h"
#include "framework/core/data_type.h"

namespace packtrain {

enum class ReduceOp { kSum, kMin, kMax };

struct CommunicatorOptions {
  CollectivePath path = CollectivePath::kRing;
  bool required = false;  // throw where `path` is not available, else take the next lower one
  int max_ctas = 0;       // maximum number of thread blocks of a kernel; 0: NCCL's choice
};

// Memory that collectives may use in place. The object frees it.
struct CommunicatorMemory {
  void* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<void> owner;
};

// Collectives over a fixed group. Every rank calls the same ones in the same order with the same
// counts. `stream` is the device stream (cudaStream_t). CPU backends ignore it and return when the
// result is complete. Buffers are on the backend's device. Each call throws Error(kDevice) when the
// library reports a fault. Only one thread at a time may use a communicator.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // receive: size() * count elements. send: count elements; it may be this rank's part of
  // `receive`.
  virtual void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                          void* stream) = 0;
  // Sums. send: size() * count elements. receive: count elements; it may be this rank's part of
  // `send`, which is undefined afterwards. bfloat16 is accumulated in float32.
  virtual void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                              void* stream) = 0;
  // Sends `send_counts[r]` elements to rank r and receives `receive_counts[r]` from it. Both
  // buffers have the elements of the ranks one after another, in their order, and do not overlap.
  // Counts have size() elements, of which any may be 0. What rank r sends to rank s is what s
  // receives from r.
  virtual void all_to_all(const void* send, std::span<const std::size_t> send_counts, void* receive,
                          std::span<const std::size_t> receive_counts, DataType type,
                          void* stream) = 0;
  virtual void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                          void* stream) = 0;
  virtual void broadcast(void* buffer, std::size_t bytes, int root, void* stream) = 0;
  virtual void barrier() = 0;  // blocks the host
  // Gathers on rank `root`. send: count elements. receive: size() * count elements at `root`, in
  // the order of the ranks; unused elsewhere (may be null). Host memory only.
  virtual void gather(const void* send, void* receive, std::size_t count, DataType type, int root) {
    if (rank() == root) return all_gather(send, receive, count, type, nullptr);
    std::vector<std::byte> unread(static_cast<std::size_t>(size()) * count * size_of(type));
    all_gather(send, unread.data(), count, type, nullptr);
  }

  // Collective. A new communicator of the ranks with the same `color`, ordered by `key`, with the
  // same options.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  // Collective; all ranks pass the same size. The first call selects the path, and throws
  // Error(kDevice) where a required one is not available. Each call registers the memory for the
  // path. Gathers and scatters in it throw Error(kInternal) unless parts are multiples of 16 bytes.
  virtual CommunicatorMemory allocate(std::size_t bytes) = 0;
  // Collective; all ranks pass the same size. Allocates scratch memory for reduce-scatters whose
  // `send` has up to `bytes` bytes, if the path needs it. Returns the number of bytes allocated.
  virtual std::size_t allocate_scratch(std::size_t /*bytes*/) { return 0; }
  // The selected path, and why it is not the requested one, as text.
  virtual std::string path() const = 0;
  // Throws Error(kDevice) when the library has met a fault that no call reported. Any thread may
  // call it during other calls, but not after abort().
  virtual void poll_error() = 0;
  virtual void abort() = 0;  // frees ranks that wait inside a collective; never throws
};

}  // namespace packtrain
