#include "parallel/communicators/nccl/nccl_handle.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <future>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "framework/device/cuda/check.h"
#include "parallel/communicators/nccl/check.h"

namespace packtrain {
namespace {

constexpr std::chrono::seconds kAbortLimit{2};
constexpr std::size_t kLargestPage = std::size_t{64} << 20;  // smaller free parts may not be usable

// NCCL's own message has neither the size nor the free memory.
void* allocate_memory(std::size_t bytes) {
  void* memory = nullptr;
  const ncclResult_t status = ncclMemAlloc(&memory, bytes);
  if (status == ncclSuccess) return memory;
  cudaGetLastError();  // clears the error, which is reported below
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess && free < bytes + kLargestPage) {
    throw Error(
        ErrorCategory::kDevice,
        fmt::format("out of GPU memory: {:.2f} GiB were asked for, for weights or gradients "
                    "that ranks exchange; {:.2f} of {:.2f} GiB are free",
                    static_cast<double>(bytes) / kGibibyte, static_cast<double>(free) / kGibibyte,
                    static_cast<double>(total) / kGibibyte),
        "Let more ranks share the state (parallel.shard_size, or more ranks), "
        "parallel.zero_stage: 3 with fewer parallel.gather_slots, or a "
        "smaller model; `packtrain plan` prints what each part needs.");
  }
  throw_nccl_error(status, nullptr, "ncclMemAlloc(&memory, bytes)", __FILE__, __LINE__);
}

}  // namespace

ncclComm_t NcclHandle::get() const {
  if (comm_ != nullptr) return comm_;
  throw Error(ErrorCategory::kDevice, "a collective was called on an aborted NCCL communicator",
              "The error that came first tells why.");
}

void* NcclHandle::allocate(std::size_t bytes, bool symmetric) {
  const ncclComm_t comm = get();
  void* memory = allocate_memory(bytes);
  if (!symmetric) return memory;
  ncclWindow_t window = nullptr;
  PACKTRAIN_NCCL_CHECK(
      comm, ncclCommWindowRegister(comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  windows_.emplace(memory, Window{window, bytes});
  return memory;
}

bool NcclHandle::in_window(const void* memory) const {
  const auto after = windows_.upper_bound(memory);
  if (after == windows_.begin()) return false;
  const auto& [begin, window] = *std::prev(after);
  return memory < static_cast<const std::byte*>(begin) + window.bytes;
}

void NcclHandle::release(void* memory) {
  if (aborted_ || std::uncaught_exceptions() > 0) return;
  cudaDeviceSynchronize();  // the call that caused a failure here or below has reported it
  const auto window = windows_.find(memory);
  if (window != windows_.end()) {
    ncclCommWindowDeregister(comm_, window->second.window);
    windows_.erase(window);
  }
  ncclMemFree(memory);
}

void NcclHandle::close() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) return abort();
  if (!windows_.empty()) cudaDeviceSynchronize();
  for (const auto& [memory, window] : windows_) ncclCommWindowDeregister(comm_, window.window);
  windows_.clear();
  ncclCommDestroy(std::exchange(comm_, nullptr));
}

void NcclHandle::abort() {
  aborted_ = true;
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  // ncclCommAbort may never return: observed with windows on the communicator, and known for lost
  // peers (https://github.com/NVIDIA/nccl/issues/1013). The process ends soon after.
  const auto over = std::make_shared<std::promise<void>>();
  std::thread([comm, over] {
    ncclCommAbort(comm);
    over->set_value();
  }).detach();
  if (over->get_future().wait_for(kAbortLimit) == std::future_status::timeout) {
    log_warning("NCCL did not abort a communicator within {} s: left as it is",
                kAbortLimit.count());
  }
}

bool can_register_windows(ncclComm_t comm) {
  constexpr std::size_t kBytes = 4096;
  void* memory = nullptr;
  PACKTRAIN_NCCL_CHECK(nullptr, ncclMemAlloc(&memory, kBytes));
  ncclWindow_t window = nullptr;
  PACKTRAIN_NCCL_CHECK(
      comm, ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  // A symmetric window is a structure that kernels read, so it is in device memory. Without one
  // NCCL returns null, or a handle in host memory.
  cudaPointerAttributes attributes{};
  const bool symmetric = window != nullptr &&
                         cudaPointerGetAttributes(&attributes, window) == cudaSuccess &&
                         attributes.type == cudaMemoryTypeDevice;
  cudaGetLastError();  // clears the error: CUDA does not know the pointer
  if (window != nullptr) PACKTRAIN_NCCL_CHECK(comm, ncclCommWindowDeregister(comm, window));
  PACKTRAIN_NCCL_CHECK(nullptr, ncclMemFree(memory));
  return symmetric;
}

}  // namespace packtrain
