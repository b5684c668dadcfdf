// A communicator of NCCL with the windows on it. The Communicator and the memory it gave out share
// one, since either may go first: windows must be gone before the communicator, memory after both.
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

  // Memory of ncclMemAlloc on the current device. `symmetric`: registered as a symmetric window,
  // which is collective (same sizes, same order).
  void* allocate(std::size_t bytes, bool symmetric);
  // Once all of this process's work on the device is done. Nothing is freed after abort(), nor
  // while an exception passes: peers may still read or write the memory.
  void release(void* memory);

  bool in_window(const void* memory) const;

  // Deregisters all windows and destroys the communicator, which waits for the peers: not while an
  // exception ends this rank alone, then it is aborted.
  void close();
  void abort();  // within 2 s, or leaves the communicator as it is

 private:
  struct Window {
    ncclWindow_t window = nullptr;
    std::size_t bytes = 0;
  };

  ncclComm_t comm_;
  bool aborted_ = false;
  std::map<const void*, Window> windows_;  // by their first byte
};

// Whether NCCL makes symmetric windows on the communicator. Collective.
bool can_register_windows(ncclComm_t comm);

}  // namespace packtrain
