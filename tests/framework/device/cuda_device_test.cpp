// The CUDA device; needs a GPU.
#include <ATen/ops/arange.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/architecture.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/peak_tflops.h"
#include "framework/device/device.h"
#include "framework/device/host_memory.h"

namespace packtrain {
namespace {

class CudaStreams : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cuda_device(0, {});
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::kCompute);
  std::unique_ptr<Stream> gather_ = device_->make_stream(StreamKind::kGather);
  std::unique_ptr<Event> event_ = device_->make_event();
  at::TensorOptions options_ = at::TensorOptions(at::kFloat).device(at::kCUDA, 0);
};

TEST_F(CudaStreams, KernelsWereCompiledForThisGpuOrAnOlderOne) {
  const int capability = 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
                         device_attribute(cudaDevAttrComputeCapabilityMinor);
  EXPECT_GE(compiled_architecture(), 80);
  EXPECT_LE(compiled_architecture(), capability);
}

TEST_F(CudaStreams, ABlockMayHaveAtLeastTheSharedMemoryOfTheSmallestGpu) {
  EXPECT_GE(max_shared_memory_per_block(), 99 << 10);
  EXPECT_LE(max_shared_memory_per_block(),
            device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

TEST_F(CudaStreams, RunMakesTheStreamCurrentAndPutsTheOldOneBack) {
  const auto before = c10::cuda::getCurrentCUDAStream();
  compute_->run([&](StreamHandle handle) {
    EXPECT_EQ(c10::cuda::getCurrentCUDAStream().stream(), handle);
    EXPECT_NE(handle, nullptr) << "not the legacy default stream";
  });
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), before);
}

TEST_F(CudaStreams, StreamsOfTheCollectivesHaveHighPriority) {
  const auto priority = [](Stream& stream) {
    int value = 0;
    stream.run([&](StreamHandle) { value = c10::cuda::getCurrentCUDAStream().priority(); });
    return value;
  };
  EXPECT_LT(priority(*gather_), priority(*compute_));
  EXPECT_LT(priority(*device_->make_stream(StreamKind::kReduce)), priority(*compute_));
}

TEST_F(CudaStreams, AnEventOrdersTwoStreams) {
  const at::Tensor slot = at::full({1 << 24}, 0.0, options_);
  at::Tensor seen;
  compute_->synchronize();
  for (int round = 1; round <= 20; ++round) {
    gather_->wait(*event_);
    gather_->run([&](StreamHandle) {
      for (int i = 0; i < 8; ++i) slot.fill_(-1);
      slot.fill_(round);
    });
    gather_->record(*event_);
    compute_->wait(*event_);
    compute_->run([&](StreamHandle) { seen = slot.slice(0, slot.numel() - 1).clone(); });
    compute_->record(*event_);
    compute_->synchronize();
    ASSERT_EQ(seen.item<float>(), static_cast<float>(round));
  }
}

TEST_F(CudaStreams, AnEventNeverRecordedBlocksNoStream) {
  compute_->wait(*event_);
  compute_->synchronize();
}

TEST_F(CudaStreams, HostBuffersArePinned) {
  const HostBuffer buffer = device_->allocate_host(4096);
  ASSERT_NE(buffer.data, nullptr);
  EXPECT_TRUE(at::from_blob(buffer.data, {4096}, at::TensorOptions(at::kByte)).is_pinned());
}

constexpr std::int64_t kLargeBytes = 200'000'001;

TEST_F(CudaStreams, LargeHostBuffersArePinnedAndZero) {
  const HostBuffer buffer = device_->allocate_host(kLargeBytes);
  ASSERT_EQ(buffer.size, static_cast<std::size_t>(kLargeBytes));
  EXPECT_TRUE(buffer.is_zeroed);
  for (const std::int64_t at : {std::int64_t{0}, kLargeBytes / 2, kLargeBytes - 1}) {
    cudaPointerAttributes attributes{};
    PACKTRAIN_CUDA_CHECK(cudaPointerGetAttributes(&attributes, buffer.data + at));
    EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  }
  const auto bytes = at::TensorOptions(at::kByte);
  const at::Tensor on_host = at::from_blob(buffer.data, {kLargeBytes}, bytes);
  EXPECT_TRUE(on_host.is_pinned());
  EXPECT_EQ(on_host.count_nonzero().item<std::int64_t>(), 0);
}

TEST_F(CudaStreams, AsynchronousCopiesOfALargeHostBufferReturnItsBytes) {
  const auto bytes = at::TensorOptions(at::kByte);
  const HostBuffer from = device_->allocate_host(kLargeBytes);
  const HostBuffer to = device_->allocate_host(kLargeBytes);
  at::Tensor sent = at::from_blob(from.data, {kLargeBytes}, bytes);
  at::Tensor received = at::from_blob(to.data, {kLargeBytes}, bytes);
  sent.copy_(at::arange(kLargeBytes, at::TensorOptions(at::kInt)).remainder(251));
  const std::unique_ptr<Stream> copy = device_->make_stream(StreamKind::kCopy);
  copy->run([&](StreamHandle) {
    at::Tensor on_device = at::empty({kLargeBytes}, options_.dtype(at::kByte));
    on_device.copy_(sent, /*non_blocking=*/true);
    received.copy_(on_device, /*non_blocking=*/true);
  });
  copy->synchronize();
  EXPECT_TRUE(at::equal(received, sent));
}

TEST_F(CudaStreams, ALargeHostBufferIsFreedWithItsOwner) {
  const std::int64_t before = resident_memory_bytes();
  HostBuffer buffer = device_->allocate_host(kLargeBytes);
  std::byte* const data = buffer.data;
  EXPECT_GE(resident_memory_bytes(), before + kLargeBytes / 2);
  buffer = {};
  EXPECT_LT(resident_memory_bytes(), before + kLargeBytes / 2);
  cudaPointerAttributes attributes{};
  PACKTRAIN_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(CudaStreams, MoreHostMemoryThanTheHostHasIsAnErrorWithItsBytes) {
  const std::size_t bytes = std::size_t{1} << 60U;
  try {
    device_->allocate_host(bytes);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kDevice);
    EXPECT_NE(error.message().find("pinned host memory: the system gives no 1152921504606846976"),
              std::string::npos)
        << error.message();
  }
}

TEST_F(CudaStreams, PeakMemoryCountsWhatTheAllocatorGave) {
  const std::size_t before = device_->peak_memory_bytes();
  {
    const at::Tensor large = at::empty({1 << 26}, options_);
  }
  EXPECT_GE(device_->peak_memory_bytes(), before);
  EXPECT_GE(device_->peak_memory_bytes(), std::size_t{1} << 28U);
  EXPECT_GT(device_->total_memory_bytes(), device_->peak_memory_bytes());
}

TEST_F(CudaStreams, MemoryInUseFallsWithTheTensorAndReservedMemoryStays) {
  const MemoryUse before = device_->memory_use();
  std::size_t reserved = 0;
  {
    const at::Tensor large = at::empty({1 << 26}, options_);
    const MemoryUse during = device_->memory_use();
    EXPECT_GE(during.allocated_bytes, before.allocated_bytes + (std::size_t{1} << 28U));
    EXPECT_GE(during.reserved_bytes, during.allocated_bytes);
    reserved = during.reserved_bytes;
  }
  EXPECT_EQ(device_->memory_use().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(device_->memory_use().reserved_bytes, reserved);
}

TEST_F(CudaStreams, AvailableMemoryCountsWhatTheAllocatorHoldsUnused) {
  const std::size_t before = device_->available_memory_bytes();
  EXPECT_LE(before, device_->total_memory_bytes());
  EXPECT_EQ(cuda_memory_bytes(0), device_->total_memory_bytes());
  at::Tensor large = at::empty({1 << 26}, options_);
  EXPECT_LE(device_->available_memory_bytes() + (std::size_t{1} << 28U), before);
  large = at::Tensor();  // kept by the allocator
  EXPECT_NEAR(static_cast<double>(device_->available_memory_bytes()), static_cast<double>(before),
              64e6);
}

TEST(PeakTflops, KnowsCommonGpusByTheNamesCudaGivesThem) {
  EXPECT_EQ(peak_tflops_of("NVIDIA H200"), 989.4);
  EXPECT_EQ(peak_tflops_of("NVIDIA H100 80GB HBM3"), 989.4);
  EXPECT_EQ(peak_tflops_of("NVIDIA H100 PCIe"), 756.5);
  EXPECT_EQ(peak_tflops_of("NVIDIA A100-SXM4-80GB"), 312.0);
  EXPECT_EQ(peak_tflops_of("Some later GPU"), 0);
}

}  // namespace
}  // namespace packtrain
