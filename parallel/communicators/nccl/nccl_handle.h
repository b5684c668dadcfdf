// An NCCL communicator with its windows. The Communicator and its memory share one, because either
// may be destroyed first. Windows must be deregistered before the communicator, and memory is freed
// after both.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <map>

namespace packtrain {

class NcclHandle {
 public:
  explicit NcclHandle(ncclComm_t comm) : comm_(comm) {}
  ~NcclHandle() { close(); }
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  ncclComm_t get() const;  // throws Error(kDevice) once aborted or closed

  // Allocates with ncclMemAlloc on the current device. `symmetric`: registers a symmetric window,
  // which is collective (same sizes, same order).
  void* allocate(std::size_t bytes, bool symmetric);
  // Frees the memory after all of this process's work on the device. Frees nothing after abort() or
  // during an exception, because peers may still access the memory.
  void release(void* memory);

  bool in_window(const void* memory) const;

  // Deregisters all windows and destroys the communicator, which waits for the peers. During an
  // exception that ends this rank alone it aborts the communicator.
  void close();
  void abort();  // within 2 s; else the communicator stays as it is

 private:
  struct Window {
    ncclWindow_t window = nullptr;
    std::size_t bytes = 0;
  };

  ncclComm_t comm_;
  bool aborted_ = false;
  std::map<const void*, Window> windows_;  // by their first address
};

// Collective. True when NCCL makes symmetric windows on the communicator.
bool can_register_windows(ncclComm_t comm);

}  // namespace packtrain
