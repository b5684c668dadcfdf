// Ranks talking to each other. One small interface; one folder a backend (local, mpi, nccl), each
// with a stub where it is not built. Stands on framework/support alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "framework/support/data_type.h"

namespace packtrain {

enum class ReduceOp { kSum, kMin, kMax };

// How NCCL moves what lies in memory of allocate(); the other backends have one way. kSymmetric:
// kernels that read and write the peers' memory. kCopyEngine: all-gathers take no SM at all;
// reduce-scatters are copied by the same engines into scratch memory and added up there, rounded
// once, in the order of the ranks. Both need every rank on one host.
enum class CollectivePath { kRing, kSymmetric, kCopyEngine };

struct CommunicatorOptions {
  CollectivePath path = CollectivePath::kRing;
  bool required = false;  // an Error where `path` cannot be had; else the next lower one is taken
  int max_ctas = 0;       // thread blocks of a kernel at most; 0: NCCL's choice
};

// Memory that collectives may use in place, freed with the object.
struct CommunicatorMemory {
  void* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<void> owner;
};

// Collectives over a fixed group. Every rank calls the same ones in the same order with the same
// counts. `stream` is the device stream to run on (cudaStream_t; ignored by CPU backends, which
// return when the result is there). Buffers are on the backend's device. Each call throws
// Error(kDevice) when the library reports a fault. One thread at a time per communicator.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // receive: size() * count elements; send: count elements, may be this rank's place in `receive`.
  virtual void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                          void* stream) = 0;
  // send: size() * count elements; receive: count elements, may be this rank's place in `send`
  // (which then is scratch afterwards). Sums; bfloat16 is accumulated in float32.
  virtual void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                              void* stream) = 0;
  virtual void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                          void* stream) = 0;
  virtual void broadcast(void* buffer, std::size_t bytes, int root, void* stream) = 0;
  virtual void barrier() = 0;  // blocks the host
  // What rank `root` alone reads. send: count elements; receive: at `root` size() * count elements
  // in the order of the ranks, elsewhere not looked at (may be null). Host memory only.
  virtual void gather(const void* send, void* receive, std::size_t count, DataType type, int root) {
    if (rank() == root) return all_gather(send, receive, count, type, nullptr);
    std::vector<std::byte> unread(static_cast<std::size_t>(size()) * count * size_of(type));
    all_gather(send, unread.data(), count, type, nullptr);
  }

  // A new communicator of the ranks with the same `color`, ordered by `key`; the same options.
  // Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  // Collective, with the same size on all ranks: the first call settles the path (and throws
  // Error(kDevice) where a required one cannot be had), each registers the memory for it. Gathers
  // and scatters in it take parts of a multiple of 16 bytes, else throw Error(kInternal).
  virtual CommunicatorMemory allocate(std::size_t bytes) = 0;
  // Collective, likewise: scratch memory for reduce-scatters whose `send` has up to so many bytes,
  // where the path needs any. Returns how many it took.
  virtual std::size_t allocate_scratch(std::size_t /*bytes*/) { return 0; }
  // The path settled on, and why it is not the one asked for: for people to read.
  virtual std::string path() const = 0;
  // Throws Error(kDevice) when the library has met a fault that no call reported. From any thread
  // and beside other calls, but not after abort().
  virtual void poll_error() = 0;
  virtual void abort() = 0;  // gives up: frees ranks that wait inside a collective; never throws
};

}  // namespace packtrain
