// A stream and a few words of device memory, for what ranks agree on through the host.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "framework/device/cuda/check.h"

namespace packtrain {

class Words {
 public:
  static constexpr std::size_t kNum = 8;

  Words() {
    PACKTRAIN_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    PACKTRAIN_CUDA_CHECK(cudaMalloc(&data_, kNum * sizeof(std::int64_t)));
    PACKTRAIN_CUDA_CHECK(cudaMemset(data_, 0, kNum * sizeof(std::int64_t)));
  }
  ~Words() {
    cudaFree(data_);
    cudaStreamDestroy(stream_);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  cudaStream_t stream() const { return stream_; }
  void* data() const { return data_; }

 private:
  cudaStream_t stream_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace packtrain
