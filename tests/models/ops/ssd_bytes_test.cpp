// Memory of the state space model on a GPU. PACKTRAIN_TEST_DEVICE=cuda compares it with what the
// kernels allocate.
#include "models/ops/mamba2/ssd_bytes.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <vector>

#include "models/block/operator_tape.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "models/ops/mamba2/ssd.h"
#include "tests/models/cases.h"

namespace packtrain::ssd_bytes_test {
namespace {

constexpr SsdSizes kSizes = {
    .num_rows = 640, .num_groups = 2, .num_heads = 8, .head_dim = 64, .state_dim = 128};

bool has_tensor_cores(std::int64_t head_dim, std::int64_t state_dim, DataType dtype,
                      std::int64_t shared_bytes) {
  SsdSizes sizes = kSizes;
  sizes.head_dim = head_dim;
  sizes.state_dim = state_dim;
  return ssd_on_tensor_cores(sizes, dtype, shared_bytes);
}

TEST(SsdBytes, PublishedSizesAreThoseOfTensorCores) {
  for (const std::int64_t head_dim : {64, 80, 128}) {
    for (const std::int64_t state_dim : {16, 128, 256}) {
      EXPECT_TRUE(has_tensor_cores(head_dim, state_dim, DataType::kBFloat16, kHopperSharedBytes));
    }
  }
  EXPECT_FALSE(has_tensor_cores(64, 128, DataType::kFloat32, kHopperSharedBytes));
  EXPECT_FALSE(has_tensor_cores(60, 128, DataType::kBFloat16, kHopperSharedBytes));
  EXPECT_FALSE(has_tensor_cores(64, 264, DataType::kBFloat16, kHopperSharedBytes));
  EXPECT_FALSE(has_tensor_cores(136, 128, DataType::kBFloat16, kHopperSharedBytes));
}

TEST(SsdBytes, GpusOfLittleSharedMemoryHaveNarrowHeadsOnTensorCores) {
  constexpr std::int64_t kLittleShared = 99 << 10;  // compute capability 8.6, 8.9 and 12.0
  EXPECT_TRUE(has_tensor_cores(64, 256, DataType::kBFloat16, kLittleShared));
  EXPECT_FALSE(has_tensor_cores(128, 128, DataType::kBFloat16, kLittleShared));
}

TEST(SsdBytes, FewBlocksDivideTheHeadsOfAGroup) {
  constexpr std::int64_t kFewChunks = 64, kManyChunks = 5000;
  SsdSizes sizes = kSizes;
  sizes.num_groups = 1;
  EXPECT_GT(ssd_head_parts(sizes, kFewChunks), 1);
  EXPECT_EQ(ssd_head_parts(sizes, kManyChunks), 1);
  sizes.num_groups = sizes.num_heads;
  EXPECT_EQ(ssd_head_parts(sizes, kFewChunks), 1);
}

std::int64_t peak_bytes(at::Device device) {
  return c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index()).allocated_bytes[0].peak;
}

class SsdMemory : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, SsdMemory, testing::ValuesIn(operator_cases()), case_name);

// The CPU has no such statistics, so that it only computes.
TEST_P(SsdMemory, BackwardOnAGpuAllocatesAtMostTheBytes) {
  const OperatorCase& on = GetParam();
  const std::vector<std::int32_t> boundaries = {0, 300, 640};
  const auto numbers = [&](at::IntArrayRef shape, at::ScalarType type) {
    return at::full(shape, 0.1, on.options().dtype(type));
  };
  const auto inputs = [&] {
    return SsdInputs{numbers({640, 8, 64}, on.dtype), numbers({640, 2, 128}, on.dtype),
                     numbers({640, 2, 128}, on.dtype), numbers({640, 8}, at::kFloat),
                     numbers({640, 8}, at::kFloat).neg_()};
  };
  const SsdInputs in = inputs(), grads = inputs();
  const at::Tensor grad = numbers({640, 8, 64}, on.dtype);
  const at::TensorOptions floats = on.options().dtype(at::kFloat);
  const Parameter skip{at::ones({8}, floats), at::zeros({8}, floats)};
  const bool is_cuda = on.device.is_cuda();
  std::int64_t before = 0;
  if (is_cuda) {
    c10::getDeviceAllocator(at::kCUDA)->resetPeakStats(on.device.index());
    before = peak_bytes(on.device);
  }
  ssd_backward(grad, in, skip, {boundaries}, grads);
  EXPECT_TRUE(grads.x.isfinite().all().item<bool>());
  if (!is_cuda) return;
  const DataType dtype = on.dtype == at::kFloat ? DataType::kFloat32 : DataType::kBFloat16;
  const std::int64_t bound = ssd_workspace_bytes(kSizes, dtype, delta_rule_shared_bytes());
  constexpr std::int64_t kRounding = 16 * 512;  // of allocations, and the tables of chunks
  const std::int64_t used = peak_bytes(on.device) - before;
  EXPECT_LE(used, bound + kRounding);
  EXPECT_GE(used, bound / 2);  // slots and parts are upper bounds
}

}  // namespace
}  // namespace packtrain::ssd_bytes_test
