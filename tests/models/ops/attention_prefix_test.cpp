// Attention of segments with prefixes, and the copies of keys that kernels read.
#include <ATen/Context.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "models/ops/attention/attention_bytes.h"
#include "models/ops/attention/backends.h"
#include "models/ops/attention/expanded_keys.h"
#include "tests/models/cases.h"
#include "tests/models/ops/attention_reference.h"

namespace packtrain::attention_prefix_test {
namespace {

class PrefixAttention : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, PrefixAttention, testing::ValuesIn(operator_cases()), case_name);

using Parts = std::vector<SegmentPart>;

// A prefix of `length` rows from row `begin` on, and branches that see it.
Parts group(std::int64_t begin, std::int32_t length, const std::vector<std::int32_t>& branches) {
  Parts parts = {{length}};
  for (const std::int32_t branch : branches) {
    parts.push_back({branch, {{begin, begin + length}}});
  }
  return parts;
}

// Segments without a prefix around two groups, of which the second has a prefix of one row.
Parts mixture() {
  Parts parts = {{50}};
  for (const SegmentPart& part : group(50, 33, {70, 1, 20})) parts.push_back(part);
  parts.push_back({1});
  for (const SegmentPart& part : group(175, 1, {9, 140})) parts.push_back(part);
  parts.push_back({20});
  return parts;
}

// Branches that do not follow their prefix, and a second turn that sees a prefix and a branch.
Parts turns() {
  return {{40}, {25}, {30, {{0, 40}}}, {17, {{0, 40}}}, {21, {{0, 40}, {65, 95}}}};
}

// Branches that see the first rows of a prefix, and one that sees all of it.
Parts conversation() {
  return {{90}, {12, {{0, 20}}}, {30, {{0, 64}}}, {9, {{0, 65}}}, {21, {{0, 90}}}};
}

std::vector<Parts> all_parts() {
  return {group(0, 40, {30, 25}),
          group(0, 64, {3, 80, 1, 128, 17, 1, 200, 64}),
          group(0, 1, {1, 1}),
          mixture(),
          turns(),
          conversation(),
          group(0, 300, {1})};
}

std::vector<AttentionBackend> prefix_backends_on(const OperatorCase& on) {
  std::vector<AttentionBackend> backends = backends_on(on);
  if (on.device.is_cuda()) std::erase(backends, AttentionBackend::kReference);
  return backends;
}

struct Tensors {
  at::Tensor qkv;
  at::Tensor grad;
};

Tensors random_heads(const OperatorCase& on, const AttentionShape& shape, std::int64_t num_rows) {
  const std::int64_t num_all = shape.num_heads + 2 * shape.num_kv_heads;
  return {random_tensor(on, {num_rows, num_all, shape.head_dim}, "qkv"),
          random_tensor(on, {num_rows, shape.num_heads * shape.head_dim}, "grad")};
}

void expect_formula(const OperatorCase& on, const AttentionShape& shape, const Parts& parts,
                    const Parameter* sinks = nullptr) {
  DeviceBatch batch = segment_batch(parts, on.device);
  const Tensors in = random_heads(on, shape, batch.cu_seqlens_host.back());
  const std::string what = fmt::format("{} {}/{} x {}, window {}, cap {}, {} segments, {} rows",
                                       attention_backend_name(shape.backend), shape.num_heads,
                                       shape.num_kv_heads, shape.head_dim, shape.pattern.window,
                                       shape.soft_cap, parts.size(), batch.cu_seqlens_host.back());
  const at::Tensor sink_values = sinks != nullptr ? sinks->value : at::Tensor();
  expect_close_by_rows(run_attention(on, in.qkv, in.grad, shape, batch, sinks),
                       attention_formula(in.qkv, in.grad, shape, batch.segments(), sink_values),
                       on.tolerance, what);
}

TEST_P(PrefixAttention, MatchesItsFormulaForEveryRatioOfHeads) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : prefix_backends_on(on)) {
    for (const std::int64_t num_kv_heads : {4, 1}) {
      for (const Parts& parts : all_parts()) {
        expect_formula(on, {4, num_kv_heads, 64, 0, {}, backend}, parts);
      }
    }
  }
}

TEST_P(PrefixAttention, MatchesItsFormulaForEveryHeadSize) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : prefix_backends_on(on)) {
    for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
      expect_formula(on, {4, 2, head_dim, 0, {}, backend}, mixture());
    }
  }
}

TEST_P(PrefixAttention, MatchesItsFormulaForHeadsOf512) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : wide_backends_on(on)) {
    for (const std::int64_t window : {0, 5, 64}) {
      for (const Parts& parts : {group(0, 64, {3, 80, 1, 64}), mixture(), turns()}) {
        expect_formula(on, {4, 2, 512, 0, {window}, backend}, parts);
      }
    }
  }
}

// Windows shorter than the prefix, as long as it, and longer than all keys.
TEST_P(PrefixAttention, MatchesItsFormulaWithWindowsAndScales) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : window_backends_on(on)) {
    for (const std::int64_t window : {1, 5, 64, 5000}) {
      for (const Parts& parts : {group(0, 64, {3, 80, 1, 64}), mixture(), turns()}) {
        expect_formula(on, {4, 2, 64, 0.3, {window}, backend}, parts);
      }
    }
  }
}

TEST_P(PrefixAttention, MatchesItsFormulaWithSoftCaps) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t window : {0, 5, 64}) {
    for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kPlain}) {
      for (const Parts& parts : {mixture(), turns()}) {
        expect_formula(on, {6, 3, 32, 0.3, {window}, backend, 2.0}, parts);
      }
    }
  }
  for (const std::int64_t head_dim : {128, 256}) {
    expect_formula(on, {4, 2, head_dim, 0, {}, AttentionBackend::kAuto, 2.0}, mixture());
  }
}

TEST_P(PrefixAttention, MatchesItsFormulaWithSinks) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : prefix_backends_on(on)) {
    const Parameter sinks = random_parameter(on, {6}, "sinks");
    for (const Parts& parts : {mixture(), turns()}) {
      expect_formula(on, {6, 3, 64, 0, {}, backend}, parts, &sinks);
    }
  }
  for (const AttentionBackend backend : window_backends_on(on)) {
    const Parameter sinks = random_parameter(on, {4}, "sinks", at::kFloat);
    expect_formula(on, {4, 1, 64, 0.3, {5}, backend}, mixture(), &sinks);
  }
}

TEST_P(PrefixAttention, NoBranchSeesAnother) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : prefix_backends_on(on)) {
    const AttentionShape shape = {4, 2, 64, 0, {}, backend};
    DeviceBatch batch = segment_batch(group(0, 20, {15, 30, 11}), on.device);
    const at::Tensor qkv = random_heads(on, shape, 76).qkv;
    const at::Tensor other = qkv.clone();
    other.narrow(0, 35, 30).mul_(-3.0);  // of the second branch
    const at::Tensor before = attention_forward(qkv, shape, batch).y;
    const at::Tensor after = attention_forward(other, shape, batch).y;
    expect_close(after.narrow(0, 0, 35), before.narrow(0, 0, 35), 0, "prefix, first branch");
    expect_close(after.narrow(0, 65, 11), before.narrow(0, 65, 11), 0, "third branch");
  }
}

TEST_P(PrefixAttention, OfTheSameInputsIsBitEqual) {
  const OperatorCase& on = GetParam();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  for (const double cap : {0.0, 2.0}) {
    const AttentionShape shape = {4, 2, 64, 0, {}, AttentionBackend::kAuto, cap};
    DeviceBatch batch = segment_batch(mixture(), on.device);
    const Tensors in = random_heads(on, shape, batch.cu_seqlens_host.back());
    const AttentionResult first = run_attention(on, in.qkv, in.grad, shape, batch);
    const AttentionResult second = run_attention(on, in.qkv, in.grad, shape, batch);
    EXPECT_TRUE(first.query.equal(second.query));
    EXPECT_TRUE(first.key.equal(second.key));
    EXPECT_TRUE(first.value.equal(second.value));
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

// Rows with many copies, with one, and a batch with rows that have none.
TEST_P(PrefixAttention, SumsTheCopiesOfARowInFloat32) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch = segment_batch(mixture(), on.device);
  const ExpandedKeys& keys = expanded_keys(batch);
  const std::int64_t num_rows = batch.cu_seqlens_host.back();
  for (const std::int64_t head_dim : {64, 3}) {
    const at::Tensor heads = random_tensor(on, {num_rows, 5, head_dim}, "rows").narrow(1, 1, 2);
    const at::Tensor copies = expand_rows(heads, keys);
    expect_close(copies, wide_copy(heads).index_select(0, keys.rows.cpu()), 0, "copies");
    const at::Tensor numbers = random_tensor(on, copies.sizes(), "numbers");
    const at::Tensor want = at::zeros({num_rows, 2, head_dim}, at::TensorOptions(at::kDouble))
                                .index_add(0, keys.rows.cpu(), wide_copy(numbers));
    poison_free_memory(on);
    const at::Tensor sums = random_tensor(on, {num_rows, 4, head_dim}, "sums").narrow(1, 2, 2);
    sum_copies(numbers, keys, sums);
    expect_close(sums, want, on.tolerance, "sums");
  }
}

TEST(ExpandedKeys, TakesTheFirstBranchAndItsPrefixAsOneSequence) {
  DeviceBatch batch = segment_batch(group(0, 10, {3, 4, 1}), at::kCPU);
  const ExpandedKeys& keys = expanded_keys(batch);
  EXPECT_EQ(keys.first_queries, (std::vector<std::int32_t>{0, 13, 17, 18}));
  EXPECT_EQ(keys.first_keys, (std::vector<std::int32_t>{0, 13, 27, 38}));
  EXPECT_EQ(keys.num_keys(), batch.segments().counts().num_keys());
  EXPECT_EQ(keys.max_queries, 13);
  EXPECT_EQ(keys.max_keys, 14);
  EXPECT_EQ(&expanded_keys(batch), &keys);
  batch.state.forget_boundaries();
  EXPECT_EQ(batch.state.expanded_keys, nullptr);
}

TEST(ExpandedKeys, KeepsASegmentApartThatFollowsOtherRowsThanItsPrefix) {
  DeviceBatch batch = segment_batch(turns(), at::kCPU);
  const ExpandedKeys& keys = expanded_keys(batch);
  EXPECT_EQ(keys.num_sequences(), 5);
  EXPECT_EQ(keys.num_keys(), 40 + 25 + 70 + 57 + 91);
  EXPECT_EQ(batch.segments().counts().num_keys(), keys.num_keys());
  const Parts chain = {{10}, {5, {{0, 10}}}, {7, {{0, 10}, {10, 15}}}};
  EXPECT_EQ(segment_batch(chain, at::kCPU).segments().counts().num_keys(), 22);
}

TEST(ExpandedKeys, LeavesOutSegmentsWithoutRows) {
  DeviceBatch batch = segment_batch({{0}, {10}, {0}, {3, {{0, 10}}}, {0}}, at::kCPU);
  const ExpandedKeys& keys = expanded_keys(batch);
  EXPECT_EQ(keys.num_sequences(), 1);
  EXPECT_EQ(keys.num_keys(), 13);
}

TEST(AttentionBackends, ServePrefixesByTheKernelsOfSequences) {
  const auto choose = [](const AttentionShape& shape, at::DeviceType device, at::ScalarType type) {
    return choose_attention_backend(shape, at::Device(device), type, /*has_prefixes=*/true);
  };
  AttentionShape shape = {4, 2, 64};
  EXPECT_EQ(choose(shape, at::kCPU, at::kFloat), AttentionBackend::kReference);
  EXPECT_EQ(choose(shape, at::kCUDA, at::kFloat), AttentionBackend::kPlain);
  EXPECT_EQ(choose(shape, at::kCUDA, at::kBFloat16), AttentionBackend::kCudnn);
  shape.pattern.window = 8;
  EXPECT_EQ(choose(shape, at::kCPU, at::kFloat), AttentionBackend::kPlain);
  EXPECT_EQ(choose(shape, at::kCUDA, at::kBFloat16), AttentionBackend::kCudnn);
  shape.head_dim = 72;
  EXPECT_EQ(choose(shape, at::kCUDA, at::kBFloat16), AttentionBackend::kFlash);
  shape.backend = AttentionBackend::kReference;
  shape.pattern.window = 0;
  EXPECT_THROW(choose(shape, at::kCUDA, at::kFloat), Error);
}

TEST(AttentionBytes, CountCopiesOfKeysAndTheirGradients) {
  const AttentionShape shape = {32, 8, 128};
  constexpr std::int64_t kRows = 16384;
  const auto bytes = [&](AttentionBackend backend, std::int64_t num_keys) {
    AttentionShape with = shape;
    with.backend = backend;
    return attention_backward_bytes(
        with, {.num_tokens = kRows, .num_sequences = 30, .num_keys = num_keys}, at::kCUDA,
        at::kBFloat16);
  };
  constexpr std::int64_t kKeyBytes = 2 * 8 * 128 * 2;
  const AttentionBytes none = bytes(AttentionBackend::kCudnn, 0);
  const AttentionBytes same = bytes(AttentionBackend::kCudnn, kRows);
  const AttentionBytes more = bytes(AttentionBackend::kCudnn, 2 * kRows);
  EXPECT_EQ(same.gradients, none.gradients - kRows * kKeyBytes);
  EXPECT_EQ(same.workspace, none.workspace + 2 * kRows * kKeyBytes);
  EXPECT_EQ(more.gradients, same.gradients);
  constexpr std::int64_t kHeadBytes = 2 * 32 * 128 * 4;  // dk and dv of all query heads
  EXPECT_EQ(more.workspace - same.workspace, kRows * (2 * kKeyBytes + kHeadBytes));
  const AttentionBytes flash = bytes(AttentionBackend::kFlash, 2 * kRows);
  EXPECT_GT(flash.workspace, bytes(AttentionBackend::kFlash, 0).workspace);
}

}  // namespace
}  // namespace packtrain::attention_prefix_test
