#include "framework/device/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"
#include "framework/device/host_memory.h"
#include "framework/device/zero_pages.h"

namespace packtrain {
namespace {

// cudaHostAlloc has the calling thread zero all pages.
constexpr std::size_t kLargePinnedBytes = std::size_t{64} << 20U;

constexpr const char* kPinnedName = "pinned host memory";

// `result` of a call that pins `bytes`.
cudaError_t unless_no_memory(cudaError_t result, std::size_t bytes) {
  if (result != cudaErrorMemoryAllocation) return result;
  cudaGetLastError();  // it is reported here
  throw host_memory_error(kPinnedName, bytes);
}

// Pages that CUDA has registered.
class PinnedPages {
 public:
  PinnedPages(std::size_t bytes, int index)
      : pages_(kPinnedName, bytes, num_page_threads(num_cuda_devices())), index_(index) {
    PACKTRAIN_CUDA_CHECK(unless_no_memory(
        cudaHostRegister(pages_.data(), pages_.size(), cudaHostRegisterDefault), bytes));
  }
  // May run in a thread whose current device is another. Copies may be in flight after an error.
  ~PinnedPages() {
    int current = index_;
    cudaGetDevice(&current);
    cudaSetDevice(index_);
    cudaDeviceSynchronize();
    cudaHostUnregister(pages_.data());
    cudaSetDevice(current);
  }
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;
  PinnedPages(PinnedPages&&) = delete;
  PinnedPages& operator=(PinnedPages&&) = delete;

  std::byte* data() const { return pages_.data(); }

 private:
  ZeroPages pages_;
  int index_;
};

}  // namespace

HostBuffer allocate_pinned(std::size_t bytes, int index) {
  if (bytes >= kLargePinnedBytes) {
    auto pages = std::make_shared<PinnedPages>(bytes, index);
    return {pages->data(), bytes, std::move(pages), /*is_zeroed=*/true};
  }
  void* data = nullptr;
  PACKTRAIN_CUDA_CHECK(unless_no_memory(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), bytes));
  std::shared_ptr<void> owner(data, [](void* pinned) { cudaFreeHost(pinned); });
  return {static_cast<std::byte*>(data), bytes, std::move(owner)};
}

}  // namespace packtrain
