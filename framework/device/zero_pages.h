// Large memory of the host that several threads make present.
#pragma once

#include <cstddef>

namespace packtrain {

// Threads that make pages present, on a host of `num_ranks` ranks: 1 to 16. They are no more than
// the rank's share of the processors, and no more than the process may use.
int num_page_threads(int num_ranks);

// Private anonymous pages, all zero and present. The kernel zeroes a page in the thread that
// touches it first, so several threads are faster than one.
class ZeroPages {
 public:
  // `bytes` > 0; the size is rounded up to whole pages. The calling thread is one of `num_threads`.
  // Throws host_memory_error(kind, bytes) where the address space or the memory that this host has
  // available is less. Without the second check the kernel would kill the process.
  ZeroPages(const char* kind, std::size_t bytes, int num_threads);
  ~ZeroPages();
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;
  ZeroPages(ZeroPages&&) = delete;
  ZeroPages& operator=(ZeroPages&&) = delete;

  std::byte* data() const { return data_; }   // the begin of a page
  std::size_t size() const { return size_; }  // bytes of all pages

 private:
  void touch(int num_threads) const;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace packtrain
