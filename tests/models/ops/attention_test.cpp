// Packed attention against masked attention in float64.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/support/error.h"
#include "models/ops/attention/attention.h"
#include "models/ops/attention/backends.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/ops/attention_reference.h"

namespace packtrain {
namespace {

class Attention : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Attention, testing::ValuesIn(operator_cases()), case_name);

using Lengths = std::vector<std::int32_t>;

std::vector<AttentionBackend> backends_on(const OperatorCase& on) {
  if (on.device.is_cuda() && on.dtype == at::kBFloat16) {
    return {AttentionBackend::kCudnn, AttentionBackend::kFlash, AttentionBackend::kReference};
  }
  return {AttentionBackend::kReference};
}

void expect_formula(const OperatorCase& on, const AttentionShape& shape, const Lengths& lengths) {
  const DeviceBatch batch = random_batch(lengths, 50, on.device);
  const std::int64_t num_tokens = batch.input_ids.size(0);
  const at::Tensor qkv = random_tensor(
      on, {num_tokens, shape.num_heads + 2 * shape.num_kv_heads, shape.head_dim}, "qkv");
  const at::Tensor grad = random_tensor(on, {num_tokens, shape.num_heads * shape.head_dim}, "grad");
  const std::string what =
      fmt::format("{} {}/{} x {}, scale {}, window {}, {} sequences, {} tokens",
                  attention_backend_name(shape.backend), shape.num_heads, shape.num_kv_heads,
                  shape.head_dim, shape.scale, shape.window, lengths.size(), num_tokens);
  expect_close_by_rows(run_attention(on, qkv, grad, shape, batch),
                       attention_formula(qkv, grad, shape, lengths), on.tolerance, what);
}

const Lengths kUneven = {1, 60, 2, 77, 128, 129, 5, 180, 1, 1};

TEST_P(Attention, MatchesItsFormulaForEveryRatioOfHeads) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t num_kv_heads : {8, 2, 1}) {
      expect_formula(on, {8, num_kv_heads, 64, 0, 0, backend}, kUneven);
    }
  }
}

TEST_P(Attention, MatchesItsFormulaForEveryHeadSize) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
      expect_formula(on, {4, 2, head_dim, 0, 0, backend}, {130, 40, 7});
    }
  }
}

TEST_P(Attention, MatchesItsFormulaWithWindowsAndScales) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t window : {1, 5, 64, 150, 5000}) {
      expect_formula(on, {4, 2, 64, 0, window, backend}, kUneven);
    }
    expect_formula(on, {4, 2, 64, 0.3, 0, backend}, kUneven);
  }
}

TEST_P(Attention, OnTheCpuServesSmallAndOddHeads) {
  const OperatorCase& on = GetParam();
  if (on.device.is_cuda()) return;
  for (const AttentionShape shape : {AttentionShape{4, 4, 16}, {4, 2, 32}, {6, 1, 8}, {2, 1, 6}}) {
    expect_formula(on, shape, {5, 1, 17, 64, 3});
  }
}

TEST_P(Attention, ServesThousandsOfSequencesOfOneToken) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    if (backend == AttentionBackend::kReference && on.device.is_cuda()) continue;
    expect_formula(on, {2, 1, 64, 0, 0, backend}, Lengths(2000, 1));
  }
}

TEST_P(Attention, ServesOneSequence) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int32_t length : {1, 2, 127, 600}) {
      expect_formula(on, {4, 2, 64, 0, 0, backend}, {length});
    }
  }
}

TEST_P(Attention, ServesALongSequenceAmongShortOnes) {
  const OperatorCase& on = GetParam();
  if (!on.device.is_cuda() || on.dtype != at::kBFloat16) return;  // hours
  for (const AttentionBackend backend : {AttentionBackend::kCudnn, AttentionBackend::kFlash}) {
    expect_formula(on, {2, 1, 128, 0, 0, backend}, {3, 32768, 1, 100});
    expect_formula(on, {2, 1, 64, 0, 1024, backend}, {32768});
  }
}

TEST_P(Attention, OfNoTokensIsEmpty) {
  const OperatorCase& on = GetParam();
  const DeviceBatch batch = random_batch({}, 50, on.device);
  const AttentionShape shape = {4, 2, 64};
  const at::Tensor qkv = random_tensor(on, {0, 8, 64}, "qkv");
  const at::Tensor grad = random_tensor(on, {0, 256}, "grad");
  const AttentionResult result = run_attention(on, qkv, grad, shape, batch);
  EXPECT_EQ(result.y.numel(), 0);
  EXPECT_EQ(result.key.size(1), 2);
}

TEST_P(Attention, NoSequenceSeesAnother) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    const AttentionShape shape{4, 2, 64, 0, 0, backend};
    const DeviceBatch batch = random_batch({7, 12, 5}, 50, on.device);
    const at::Tensor qkv = random_tensor(on, {24, 8, 64}, "qkv");
    const at::Tensor other = qkv.clone();
    other.narrow(0, 7, 12).mul_(-3.0);
    const at::Tensor before = attention_forward(qkv, shape, batch).y;
    const at::Tensor after = attention_forward(other, shape, batch).y;
    expect_close(after.narrow(0, 0, 7), before.narrow(0, 0, 7), 0, "first sequence");
    expect_close(after.narrow(0, 19, 5), before.narrow(0, 19, 5), 0, "last sequence");
  }
}

TEST_P(Attention, RefusesWhatNoKernelServes) {
  const OperatorCase& on = GetParam();
  const auto choose = [&](std::int64_t head_dim, AttentionBackend backend) {
    return choose_attention_backend({2, 1, head_dim, 0, 0, backend}, on.device, on.dtype);
  };
  if (on.device.is_cuda() && on.dtype == at::kBFloat16) {
    EXPECT_THROW(choose(12, AttentionBackend::kAuto), Error);
    EXPECT_THROW(choose(264, AttentionBackend::kAuto), Error);
    EXPECT_THROW(choose(264, AttentionBackend::kFlash), Error);
    EXPECT_THROW(choose(72, AttentionBackend::kCudnn), Error);
    EXPECT_EQ(choose(72, AttentionBackend::kAuto), AttentionBackend::kFlash);
    EXPECT_EQ(choose(12, AttentionBackend::kReference), AttentionBackend::kReference);
  } else {
    EXPECT_EQ(choose(12, AttentionBackend::kAuto), AttentionBackend::kReference);
    EXPECT_THROW(choose(64, AttentionBackend::kCudnn), Error);
    EXPECT_THROW(choose(64, AttentionBackend::kFlash), Error);
  }
}

}  // namespace
}  // namespace packtrain
