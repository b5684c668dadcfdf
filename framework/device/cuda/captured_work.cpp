#include "framework/device/captured_work.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>

#include "framework/device/cuda/cuda_stream.h"

namespace packtrain {
namespace {

// A memory pool that graphs share. Its id cannot be used again after its last graph is destroyed.
struct Pool {
  at::MempoolId_t id = at::cuda::graph_pool_handle();
};

std::shared_ptr<const Pool> shared_pool() {
  static std::weak_ptr<const Pool> current;
  std::shared_ptr<const Pool> pool = current.lock();
  if (pool == nullptr) current = pool = std::make_shared<const Pool>();
  return pool;
}

class CudaGraph final : public CapturedWork {
 public:
  explicit CudaGraph(const std::function<void()>& work) {
    // Other threads may allocate host memory during the capture.
    graph_.capture_begin(pool_->id, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      end_failed_capture();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  void end_failed_capture() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
      // The original error is rethrown. The error of the capture's end adds nothing.
    }
  }

  std::shared_ptr<const Pool> pool_ = shared_pool();
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& work) {
  if (dynamic_cast<CudaStream*>(&stream) == nullptr) return nullptr;
  // The capture needs memory of its own, and the allocator cannot free cached blocks during it.
  stream.synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  std::unique_ptr<CapturedWork> captured;
  stream.run([&](StreamHandle) { captured = std::make_unique<CudaGraph>(work); });
  return captured;
}

}  // namespace packtrain
