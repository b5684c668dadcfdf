#include "framework/device/zero_pages.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "framework/device/host_memory.h"

namespace packtrain {
namespace {

constexpr int kMostPageThreads = 16;
constexpr std::size_t kTouchedAtATime = std::size_t{32} << 20U;  // bytes that a thread takes

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

int num_processors() {
  return static_cast<int>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
}

// Processors that the process may use. All of them where the system does not say.
int num_allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return num_processors();
  return std::max(1, CPU_COUNT(&allowed));
}

// Reserves addresses only. Null where the address space is full.
std::byte* map_pages(std::size_t size) {
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

int num_page_threads(int num_ranks) {
  const int share = num_processors() / std::max(1, num_ranks);
  return std::clamp(std::min(share, num_allowed_processors()), 1, kMostPageThreads);
}

ZeroPages::ZeroPages(const char* kind, std::size_t bytes, int num_threads) {
  const std::size_t page = page_bytes();
  if (bytes > SIZE_MAX - page) throw host_memory_error(kind, bytes);
  size_ = (bytes + page - 1) / page * page;
  data_ = map_pages(size_);
  if (data_ == nullptr) throw host_memory_error(kind, bytes);
  const std::int64_t available = host_available_memory_bytes();
  if (available > 0 && size_ > static_cast<std::size_t>(available)) {
    munmap(data_, size_);
    throw host_memory_error(kind, bytes);
  }
  madvise(data_, size_, MADV_HUGEPAGE);  // not every kernel has huge pages
  madvise(data_, size_, MADV_DONTFORK);  // a copy in a child would move pages that a device uses
  touch(num_threads);
}

ZeroPages::~ZeroPages() {
  munmap(data_, size_);
}

void ZeroPages::touch(int num_threads) const {
  std::atomic<std::size_t> next = 0;
  const auto touch_parts = [&, page = page_bytes()] {
    for (;;) {
      const std::size_t begin = next.fetch_add(kTouchedAtATime);
      if (begin >= size_) return;
      const std::size_t end = std::min(size_, begin + kTouchedAtATime);
      for (std::size_t at = begin; at < end; at += page) {
        *const_cast<volatile std::byte*>(data_ + at) = std::byte{0};
      }
    }
  };
  const std::size_t num_parts = (size_ + kTouchedAtATime - 1) / kTouchedAtATime;
  std::vector<std::jthread> threads;
  try {
    for (std::size_t t = 1; t < std::min<std::size_t>(num_threads, num_parts); ++t) {
      threads.emplace_back(touch_parts);
    }
  } catch (const std::system_error&) {
    // The threads that exist do the work.
  }
  touch_parts();
}

}  // namespace packtrain
