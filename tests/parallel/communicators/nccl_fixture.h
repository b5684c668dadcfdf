// A GPU a rank, a stream and a communicator of the NCCL backend.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/core/random.h"
#include "framework/device/cuda/check.h"
#include "framework/device/device.h"
#include "tests/parallel/communicators/world_fixture.h"

namespace packtrain {

// Chooses the GPU once; it stays chosen.
inline Device& test_device() {
  static const std::unique_ptr<Device> device = make_cuda_device(test_world().local_rank(), {});
  return *device;
}

class Nccl : public testing::Test {
 protected:
  Device& device_ = test_device();
  std::unique_ptr<Stream> stream_ = device_.make_stream(StreamKind::kGather);
  std::unique_ptr<Communicator> comm_;
  std::size_t rank_ = static_cast<std::size_t>(test_world().rank());
  std::size_t size_ = static_cast<std::size_t>(test_world().size());

  explicit Nccl(const CommunicatorOptions& options = {})
      : comm_(test_world().connect(Backend::kNccl, options)) {}

  static float value(std::size_t rank, std::size_t i) {
    return static_cast<float>(CounterRandom(7, "values", rank).normal(i));
  }

  template <typename T>
  CommunicatorMemory upload(const std::vector<T>& values) {
    CommunicatorMemory memory = comm_->allocate(values.size() * sizeof(T));
    PACKTRAIN_CUDA_CHECK(
        cudaMemcpy(memory.data, values.data(), memory.size, cudaMemcpyHostToDevice));
    PACKTRAIN_CUDA_CHECK(cudaDeviceSynchronize());  // the copy returns before it has arrived
    return memory;
  }

  template <typename T>
  std::vector<T> download(const CommunicatorMemory& memory) {
    stream_->synchronize();
    std::vector<T> values(memory.size / sizeof(T));
    PACKTRAIN_CUDA_CHECK(
        cudaMemcpy(values.data(), memory.data, memory.size, cudaMemcpyDeviceToHost));
    return values;
  }

  template <typename T>
  static T* at(const CommunicatorMemory& memory, std::size_t index) {
    return static_cast<T*>(memory.data) + index;
  }
};

}  // namespace packtrain
