// Packed attention against masked attention in float64.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/core/error.h"
#include "models/ops/attention/attention.h"
#include "models/ops/attention/backends.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/ops/attention_reference.h"

namespace packtrain::attention_test {
namespace {

class Attention : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Attention, testing::ValuesIn(operator_cases()), case_name);

using Lengths = std::vector<std::int32_t>;

void expect_formula(const OperatorCase& on, const AttentionShape& shape, const Lengths& lengths,
                    const Parameter* sinks = nullptr) {
  DeviceBatch batch = random_batch(lengths, 50, on.device);
  const std::int64_t num_tokens = batch.input_ids.size(0);
  const at::Tensor qkv = random_tensor(
      on, {num_tokens, shape.num_heads + 2 * shape.num_kv_heads, shape.head_dim}, "qkv");
  const at::Tensor grad = random_tensor(on, {num_tokens, shape.num_heads * shape.head_dim}, "grad");
  const std::string what = fmt::format(
      "{} {}/{} x {}, scale {}, window {}, cap {}, {} sequences, {} tokens",
      attention_backend_name(shape.backend), shape.num_heads, shape.num_kv_heads, shape.head_dim,
      shape.scale, shape.pattern.window, shape.soft_cap, lengths.size(), num_tokens);
  expect_close_by_rows(
      run_attention(on, qkv, grad, shape, batch, sinks),
      attention_formula(qkv, grad, shape, lengths, sinks ? sinks->value : at::Tensor()),
      on.tolerance, what);
}

const Lengths kUneven = {1, 60, 2, 77, 128, 129, 5, 180, 1, 1};

TEST_P(Attention, MatchesItsFormulaForEveryRatioOfHeads) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t num_kv_heads : {8, 2, 1}) {
      expect_formula(on, {8, num_kv_heads, 64, 0, {}, backend}, kUneven);
    }
  }
}

TEST_P(Attention, MatchesItsFormulaForEveryHeadSize) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
      expect_formula(on, {4, 2, head_dim, 0, {}, backend}, {130, 40, 7});
    }
  }
}

TEST_P(Attention, MatchesItsFormulaForHeadsOf512) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : wide_backends_on(on)) {
    for (const std::int64_t num_kv_heads : {4, 1}) {
      expect_formula(on, {4, num_kv_heads, 512, 0, {}, backend}, kUneven);
      expect_formula(on, {4, num_kv_heads, 512, 1.0 / 64, {}, backend},
                     {64, 1, 65, 31, 300, 32, 33});
    }
    for (const std::int64_t window : {1, 5, 64, 100, 5000}) {
      expect_formula(on, {2, 1, 512, 0, {window}, backend}, kUneven);
    }
    const Parameter sinks = random_parameter(on, {4}, "sinks");
    expect_formula(on, {4, 2, 512, 0, {}, backend}, {130, 40, 1}, &sinks);
    expect_formula(on, {2, 1, 512, 0, {}, backend}, Lengths(300, 1));
    expect_formula(on, {2, 1, 512, 0, {}, backend}, {1});
  }
}

TEST_P(Attention, WithHeadsOf512IsBitEqualFromRunToRun) {
  const OperatorCase& on = GetParam();
  if (on.device.is_cuda() && on.dtype == at::kFloat) return;  // libtorch's kernels, which are not
  const AttentionShape shape = {4, 1, 512};
  DeviceBatch batch = random_batch({200, 1, 90}, 50, on.device);
  const at::Tensor qkv = random_tensor(on, {291, 6, 512}, "qkv");
  const at::Tensor grad = random_tensor(on, {291, 4 * 512}, "grad");
  const AttentionResult first = run_attention(on, qkv, grad, shape, batch);
  const AttentionResult second = run_attention(on, qkv, grad, shape, batch);
  EXPECT_TRUE(at::equal(first.y, second.y));
  EXPECT_TRUE(at::equal(first.query, second.query));
  EXPECT_TRUE(at::equal(first.key, second.key));
  EXPECT_TRUE(at::equal(first.value, second.value));
}

TEST_P(Attention, MatchesItsFormulaWithWindowsAndScales) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : window_backends_on(on)) {
    for (const std::int64_t window : {1, 5, 64, 150, 5000}) {
      expect_formula(on, {4, 2, 64, 0, {window}, backend}, kUneven);
    }
  }
  for (const AttentionBackend backend : backends_on(on)) {
    expect_formula(on, {4, 2, 64, 0.3, {}, backend}, kUneven);
  }
}

TEST_P(Attention, MatchesItsFormulaWithSoftCaps) {
  const OperatorCase& on = GetParam();
  for (const double cap : {0.5, 20.0}) {
    for (const std::int64_t window : {0, 5, 64}) {
      for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kPlain}) {
        expect_formula(on, {6, 3, 32, 0.3, {window}, backend, cap}, kUneven);
      }
      expect_formula(on, {6, 3, 24, 0.3, {window}, AttentionBackend::kAuto, cap}, kUneven);
    }
  }
  for (const std::int64_t head_dim : {80, 96, 128, 256}) {
    expect_formula(on, {4, 2, head_dim, 0, {}, AttentionBackend::kAuto, 2.0}, {130, 40, 7, 1});
  }
}

TEST_P(Attention, MatchesItsFormulaWithSinks) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t head_dim : {64, 80, 96, 256}) {
      const Parameter sinks = random_parameter(on, {6}, "sinks");
      expect_formula(on, {6, 3, head_dim, 0, {}, backend}, kUneven, &sinks);
    }
  }
  for (const AttentionBackend backend : window_backends_on(on)) {
    const Parameter sinks = random_parameter(on, {4}, "sinks", at::kFloat);
    expect_formula(on, {4, 1, 64, 0.3, {5}, backend}, kUneven, &sinks);
  }
}

TEST_P(Attention, WithSinksAddsToOrSkipsTheirGradient) {
  const OperatorCase& on = GetParam();
  const AttentionShape shape = {4, 2, 64};
  DeviceBatch batch = random_batch({7, 30}, 50, on.device);
  const at::Tensor qkv = random_tensor(on, {37, 8, 64}, "qkv");
  const at::Tensor grad = random_tensor(on, {37, 256}, "grad");
  Parameter sinks = random_parameter(on, {4}, "sinks");
  const AttentionResult once = run_attention(on, qkv, grad, shape, batch, &sinks);
  const at::Tensor first = sinks.grad.clone();
  sinks.accumulate = true;
  run_attention(on, qkv, grad, shape, batch, &sinks);
  expect_close(sinks.grad, first.mul(2), on.tolerance, "sum of two uses");
  const Parameter frozen{sinks.value, {}, false};
  expect_close(run_attention(on, qkv, grad, shape, batch, &frozen).query, once.query, 0, "d query");
}

// The sequence is long enough for scores in several blocks of rows.
TEST_P(Attention, MatchesItsFormulaInALongSequenceAmongShortOnes) {
  const OperatorCase& on = GetParam();
  if (on.dtype != at::kFloat) return;
  for (const std::int64_t window : {0, 100}) {
    const Parameter sinks = random_parameter(on, {4}, "sinks");
    expect_formula(on, {4, 2, 16, 0, {window}, AttentionBackend::kAuto, 5.0}, {3, 1500, 1, 30},
                   &sinks);
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
    expect_formula(on, {2, 1, 64, 0, {}, backend}, Lengths(2000, 1));
  }
}

TEST_P(Attention, ServesOneSequence) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int32_t length : {1, 2, 127, 600}) {
      expect_formula(on, {4, 2, 64, 0, {}, backend}, {length});
    }
  }
}

TEST_P(Attention, ServesALongSequenceAmongShortOnes) {
  const OperatorCase& on = GetParam();
  if (!on.device.is_cuda() || on.dtype != at::kBFloat16) return;  // hours
  for (const AttentionBackend backend : {AttentionBackend::kCudnn, AttentionBackend::kFlash}) {
    expect_formula(on, {2, 1, 128, 0, {}, backend}, {3, 32768, 1, 100});
    expect_formula(on, {2, 1, 64, 0, {1024}, backend}, {32768});
  }
}

TEST_P(Attention, OfNoTokensIsEmpty) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch = random_batch({}, 50, on.device);
  AttentionShape shape = {4, 2, 64};
  const at::Tensor qkv = random_tensor(on, {0, 8, 64}, "qkv");
  const at::Tensor grad = random_tensor(on, {0, 256}, "grad");
  for (const double cap : {0.0, 1.0}) {
    shape.soft_cap = cap;
    const Parameter sinks = random_parameter(on, {4}, "sinks");
    const AttentionResult result = run_attention(on, qkv, grad, shape, batch, &sinks);
    EXPECT_EQ(result.y.numel(), 0);
    EXPECT_EQ(result.key.size(1), 2);
    EXPECT_EQ(result.sinks.abs().sum().item<double>(), 0);
  }
}

TEST_P(Attention, NoSequenceSeesAnother) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    const AttentionShape shape{4, 2, 64, 0, {}, backend};
    DeviceBatch batch = random_batch({7, 12, 5}, 50, on.device);
    const at::Tensor qkv = random_tensor(on, {24, 8, 64}, "qkv");
    const at::Tensor other = qkv.clone();
    other.narrow(0, 7, 12).mul_(-3.0);
    const at::Tensor before = attention_forward(qkv, shape, batch).y;
    const at::Tensor after = attention_forward(other, shape, batch).y;
    expect_close(after.narrow(0, 0, 7), before.narrow(0, 0, 7), 0, "first sequence");
    expect_close(after.narrow(0, 19, 5), before.narrow(0, 19, 5), 0, "last sequence");
  }
}

// The large kernels where they fit, else the small ones, else the formula.
AttentionBackend fastest_of_wide(const std::vector<AttentionBackend>& backends) {
  for (const AttentionBackend backend : {AttentionBackend::kWide, AttentionBackend::kWideSmall}) {
    if (std::ranges::find(backends, backend) != backends.end()) return backend;
  }
  return AttentionBackend::kPlain;
}

TEST_P(Attention, RefusesWhatNoKernelServes) {
  const OperatorCase& on = GetParam();
  const auto choose = [&](std::int64_t head_dim, AttentionBackend backend) {
    return choose_attention_backend({2, 1, head_dim, 0, {}, backend}, on.device, on.dtype);
  };
  if (on.device.is_cuda() && on.dtype == at::kBFloat16) {
    EXPECT_THROW(choose(12, AttentionBackend::kAuto), Error);
    EXPECT_EQ(choose(264, AttentionBackend::kAuto), AttentionBackend::kPlain);
    EXPECT_THROW(choose(264, AttentionBackend::kFlash), Error);
    EXPECT_EQ(choose(512, AttentionBackend::kAuto), fastest_of_wide(wide_backends_on(on)));
    EXPECT_THROW(choose(264, AttentionBackend::kWide), Error);
    EXPECT_THROW(choose(72, AttentionBackend::kCudnn), Error);
    EXPECT_EQ(choose(72, AttentionBackend::kAuto), AttentionBackend::kFlash);
    EXPECT_EQ(choose(12, AttentionBackend::kReference), AttentionBackend::kReference);
    EXPECT_EQ(choose(12, AttentionBackend::kPlain), AttentionBackend::kPlain);
  } else {
    EXPECT_EQ(choose(12, AttentionBackend::kAuto), AttentionBackend::kReference);
    EXPECT_THROW(choose(64, AttentionBackend::kCudnn), Error);
    EXPECT_THROW(choose(64, AttentionBackend::kFlash), Error);
    EXPECT_THROW(choose(512, AttentionBackend::kWide), Error);
  }
}

TEST(AttentionBackends, TakeCudnnForWiderHeadsFromHopperOn) {
  constexpr int kAmpere = 8;
  constexpr int kHopper = 9;
  for (const std::int64_t head_dim : {16, 64, 128}) {
    EXPECT_TRUE(cudnn_trains(head_dim, kAmpere)) << head_dim;
    EXPECT_TRUE(cudnn_trains(head_dim, kHopper)) << head_dim;
  }
  for (const std::int64_t head_dim : {144, 192, 256}) {
    EXPECT_FALSE(cudnn_trains(head_dim, kAmpere)) << head_dim;
    EXPECT_TRUE(cudnn_trains(head_dim, kHopper)) << head_dim;
  }
  EXPECT_FALSE(cudnn_trains(72, kHopper));
  EXPECT_FALSE(cudnn_trains(272, kHopper));
}

TEST_P(Attention, NamesWhatServesWindowsAndSoftCaps) {
  const OperatorCase& on = GetParam();
  const auto choose = [&](const AttentionShape& shape) {
    return choose_attention_backend(shape, on.device, on.dtype);
  };
  const bool fused = on.device.is_cuda() && on.dtype == at::kBFloat16;
  EXPECT_EQ(choose({2, 1, 64, 0, 8}), fused ? AttentionBackend::kCudnn : AttentionBackend::kPlain);
  const AttentionShape capped = {2, 1, 64, 0, {}, AttentionBackend::kAuto, 50.0};
  EXPECT_EQ(choose(capped), fused ? AttentionBackend::kCudnn : AttentionBackend::kPlain);
  EXPECT_EQ(choose({2, 1, 24, 0, {}, AttentionBackend::kAuto, 50.0}), AttentionBackend::kPlain);
  for (const AttentionBackend backend : {AttentionBackend::kFlash, AttentionBackend::kReference}) {
    AttentionShape refused = capped;
    refused.backend = backend;
    EXPECT_THROW(choose(refused), Error);
  }
  EXPECT_THROW(choose({2, 1, 64, 0, {8}, AttentionBackend::kReference}), Error);
}

}  // namespace
}  // namespace packtrain::attention_test
