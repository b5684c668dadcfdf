// Memory of the gated delta rule on a GPU. PACKTRAIN_TEST_DEVICE=cuda compares it with what the
// kernels allocate.
#include "models/ops/delta_rule/delta_rule_bytes.h"

#include <ATen/ops/full.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <vector>

#include "models/block/operator_tape.h"
#include "models/ops/delta_rule/delta_rule.h"
#include "tests/models/cases.h"

namespace packtrain::delta_rule_bytes_test {
namespace {

constexpr DeltaRuleSizes kSizes = {640, 2, 2, 4, 64, 32};
constexpr std::int64_t kLittleShared = 99 << 10;  // compute capability 8.6, 8.9 and 12.0

TEST(DeltaRuleBytes, SmallSizesAreThoseOfTensorCores) {
  EXPECT_TRUE(delta_rule_on_tensor_cores(128, 192, DataType::kBFloat16, kHopperSharedBytes));
  EXPECT_FALSE(delta_rule_on_tensor_cores(128, 192, DataType::kFloat32, kHopperSharedBytes));
  EXPECT_FALSE(delta_rule_on_tensor_cores(136, 128, DataType::kBFloat16, kHopperSharedBytes));
  EXPECT_FALSE(delta_rule_on_tensor_cores(64, 20, DataType::kBFloat16, kHopperSharedBytes));
}

TEST(DeltaRuleBytes, GpusOfLittleSharedMemoryHaveTheWorkspaceOfFloat32) {
  EXPECT_FALSE(delta_rule_on_tensor_cores(128, 192, DataType::kBFloat16, kLittleShared));
  for (const bool backward : {false, true}) {
    EXPECT_EQ(delta_rule_workspace_bytes(kSizes, DataType::kBFloat16, backward, kLittleShared),
              delta_rule_workspace_bytes(kSizes, DataType::kFloat32, backward, kHopperSharedBytes));
  }
}

TEST(DeltaRuleBytes, ForwardHasRunningSumsKeysValuesAndScores) {
  constexpr std::int64_t kCells = 640 * 4;
  constexpr std::int64_t kChunks = 12;  // two more than full ones
  EXPECT_EQ(delta_rule_workspace_bytes(kSizes, DataType::kBFloat16, false, kHopperSharedBytes),
            kCells * (4 + 2 * 64 + 2 * 32) + kChunks * 4 * 64 * 64 * 2);
}

TEST(DeltaRuleBytes, BackwardHasStatesOfEachChunk) {
  DeltaRuleSizes wide = kSizes;
  wide.num_rows = 6400;
  const auto bytes_of = [](const DeltaRuleSizes& sizes) {
    return delta_rule_workspace_bytes(sizes, DataType::kFloat32, true, kHopperSharedBytes);
  };
  const std::int64_t more = bytes_of(wide) - bytes_of(kSizes);
  constexpr std::int64_t kRows = 6400 - 640;
  EXPECT_EQ(more, kRows * 4 * (2 * 4 * 32 + 2 * 2 * 64) + kRows / 64 * 4 * 4 * 64 * 32);
}

std::int64_t peak_bytes(at::Device device) {
  return c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index()).allocated_bytes[0].peak;
}

class DeltaRuleMemory : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeltaRuleMemory, testing::ValuesIn(operator_cases()), case_name);

// The CPU has no such statistics, so that it only computes.
TEST_P(DeltaRuleMemory, BackwardOnAGpuAllocatesAtMostTheBytesAndItsResults) {
  const OperatorCase& on = GetParam();
  const std::vector<std::int32_t> boundaries = {0, 300, 640};
  const auto numbers = [&](at::IntArrayRef shape, at::ScalarType type) {
    return at::full(shape, 0.1, on.options().dtype(type));
  };
  const DeltaRuleInputs in = {numbers({640, 2, 64}, on.dtype), numbers({640, 2, 64}, on.dtype),
                              numbers({640, 4, 32}, on.dtype), numbers({640, 4}, at::kFloat).neg_(),
                              numbers({640, 4}, at::kFloat)};
  const at::Tensor grad = numbers({640, 4, 32}, on.dtype);
  const bool is_cuda = on.device.is_cuda();
  std::int64_t before = 0;
  if (is_cuda) {
    c10::getDeviceAllocator(at::kCUDA)->resetPeakStats(on.device.index());
    before = peak_bytes(on.device);
  }
  const DeltaRuleInputs grads = delta_rule_backward(grad, in, {boundaries, 1.0});
  EXPECT_TRUE(grads.q.isfinite().all().item<bool>());
  if (!is_cuda) return;
  std::int64_t results = 0;
  for (const at::Tensor& x : {grads.q, grads.k, grads.v, grads.g, grads.beta}) {
    results += static_cast<std::int64_t>(x.nbytes());
  }
  const DataType dtype = on.dtype == at::kFloat ? DataType::kFloat32 : DataType::kBFloat16;
  const std::int64_t bound =
      delta_rule_workspace_bytes(kSizes, dtype, true, delta_rule_shared_bytes());
  constexpr std::int64_t kRounding = 16 * 512;  // of allocations, and the tables of chunks
  const std::int64_t used = peak_bytes(on.device) - before - results;
  EXPECT_LE(used, bound + kRounding);
  EXPECT_GE(used, bound * 3 / 4);
}

}  // namespace
}  // namespace packtrain::delta_rule_bytes_test
