// Tests the parts that only cuDNN has: plans, buckets, layouts, versions.
#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "framework/core/error.h"
#include "models/ops/attention/attention_bytes.h"
#include "models/ops/attention/backends.h"
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/cudnn/version.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/ops/attention_reference.h"

namespace packtrain::attention_cudnn_test {
namespace {

TEST(AttentionBucket, HoldsItsBatchAndIsItsOwn) {
  for (const std::int64_t num_sequences : {1, 16, 17, 66, 2000}) {
    for (const std::int64_t length : {1, 512, 513, 4096, 32768}) {
      for (const std::int64_t num_tokens : {1, 4096, 16384, 16385, 100000}) {
        const AttentionBucket bucket = attention_bucket(num_sequences, length, num_tokens);
        EXPECT_GE(bucket.num_sequences, num_sequences);
        EXPECT_GE(bucket.max_length, length);
        EXPECT_GE(bucket.num_tokens, num_tokens);
        EXPECT_LE(bucket.num_tokens, num_tokens + num_tokens / 4 + 1024);
        EXPECT_EQ(attention_bucket(bucket.num_sequences, bucket.max_length, bucket.num_tokens),
                  bucket);
      }
    }
  }
}

TEST(CudnnVersion, RefusesByNameWhatIsKnownToBeWrong) {
  for (const std::int64_t good : {90600, 90900, 91002, 91900, 92500}) {
    EXPECT_NO_THROW(check_cudnn_version(good));
  }
  for (const auto& [version, name] :
       {std::pair(90501, "9.5.1"), {91000, "9.10.0"}, {91001, "9.10.1"}, {100000, "10.0.0"}}) {
    try {
      check_cudnn_version(version);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kDevice);
      EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
    }
  }
}

// On the GPU where PACKTRAIN_TEST_DEVICE says cuda, else skipped.
class CudnnAttention : public testing::Test {
 protected:
  void SetUp() override {
    const char* wanted = std::getenv("PACKTRAIN_TEST_DEVICE");
    if (wanted == nullptr || std::string(wanted) != "cuda") GTEST_SKIP() << "needs a GPU";
  }

  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, on_.options()); }
  AttentionResult run_at(const AttentionBucket& bucket, const at::Tensor& qkv,
                         const at::Tensor& grad, DeviceBatch& batch) const {
    const AttentionOutput out = cudnn_forward_at(bucket, qkv, shape_, batch);
    const HeadGradients in_grad =
        cudnn_backward_at(bucket, grad, qkv, out.y, out.saved, shape_, batch);
    return {out.y.view(in_grad.query.sizes()), in_grad.query, in_grad.key, in_grad.value};
  }

  const OperatorCase on_ = {at::Device(at::kCUDA, 0), at::kBFloat16, 2e-2};
  const AttentionShape shape_ = {8, 2, 64, 0, {}, AttentionBackend::kCudnn};
};

TEST_F(CudnnAttention, IsTheSameInEveryBucket) {
  const std::vector<std::int32_t> lengths = {700, 3, 64, 1, 129, 500};
  DeviceBatch batch = random_batch(lengths, 50, on_.device);
  const at::Tensor qkv = random({1397, 12, 64});
  const at::Tensor grad = random({1397, 8 * 64});
  const AttentionResult want = attention_formula(qkv, grad, shape_, lengths);
  for (const AttentionBucket& bucket :
       {AttentionBucket{6, 700, 1397}, {16, 1024, 2048}, {256, 4096, 8192}, {1024, 16384, 16384}}) {
    expect_close_by_rows(run_at(bucket, qkv, grad, batch), want, on_.tolerance,
                         std::to_string(bucket.num_sequences));
  }
}

// Memory is planned by a formula (attention_bytes.h), without a GPU.
TEST_F(CudnnAttention, AsksForTheWorkspaceThatIsPlanned) {
  for (const auto& [heads, kv_heads, head_dim] :
       {std::array{32, 8, 128}, {16, 16, 128}, {14, 2, 64}, {40, 8, 128}, {16, 4, 96}}) {
    const AttentionShape shape{heads, kv_heads, head_dim};
    for (const std::int64_t tokens : {1000, 16384, 20000}) {
      for (const std::int64_t num_sequences : {1, 90, 2000}) {
        const AttentionBucket bucket = attention_bucket(num_sequences, 4096, tokens);
        const std::int64_t asked = cudnn_workspace_bytes(bucket, shape, true, on_.device);
        const std::int64_t planned =
            attention_backward_bytes(shape, {tokens, num_sequences, tokens}, at::kCUDA,
                                     at::kBFloat16)
                .workspace;
        EXPECT_LE(asked, planned) << heads << "/" << kv_heads << " x " << head_dim;
        EXPECT_GE(asked, planned - (5 << 18)) << heads << "/" << kv_heads << " x " << head_dim;
        EXPECT_LT(cudnn_workspace_bytes(bucket, shape, false, on_.device), 1 << 20);
      }
    }
  }
}

TEST_F(CudnnAttention, AsksForThePlannedWorkspaceWithPrefixes) {
  for (const auto& [heads, kv_heads, head_dim] :
       {std::array{32, 8, 128}, {16, 16, 128}, {14, 2, 64}, {16, 4, 96}}) {
    const AttentionShape shape{heads, kv_heads, head_dim};
    constexpr std::int64_t kTokens = 16384;
    for (const std::int64_t num_keys : {17000, 40000}) {
      const AttentionBucket bucket = attention_bucket(90, 4096, kTokens, num_keys);
      const std::int64_t asked = cudnn_workspace_bytes(bucket, shape, true, on_.device);
      const AttentionLoad load = {.num_tokens = kTokens, .num_sequences = 90, .num_keys = num_keys};
      const std::int64_t copies = 2 * num_keys * 2 * kv_heads * head_dim * 2;
      const std::int64_t planned =
          attention_backward_bytes(shape, load, at::kCUDA, at::kBFloat16).workspace - copies;
      EXPECT_LE(asked, planned) << heads << "/" << kv_heads << " x " << head_dim;
      EXPECT_GE(asked, planned - (5 << 18)) << heads << "/" << kv_heads << " x " << head_dim;
    }
  }
}

// A soft cap is a function of the scores, which also applies the masks.
TEST_F(CudnnAttention, ServesPrefixesWithSoftCapsAndWindows) {
  const std::vector<SegmentPart> parts = {{300}, {200, {{0, 300}}}, {70, {{0, 300}}}, {33}};
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const std::int64_t window : {0, 100, 350}) {
      const AttentionShape shape = {4, 2, head_dim, 0, {window}, AttentionBackend::kCudnn, 5.0};
      DeviceBatch batch = segment_batch(parts, on_.device);
      const at::Tensor qkv = random({603, 8, head_dim});
      const at::Tensor grad = random({603, 4 * head_dim});
      expect_close_by_rows(run_attention(on_, qkv, grad, shape, batch),
                           attention_formula(qkv, grad, shape, batch.segments()), on_.tolerance,
                           std::to_string(head_dim) + ", " + std::to_string(window));
    }
  }
}

TEST_F(CudnnAttention, ServesPrefixesInEveryBucket) {
  const std::vector<SegmentPart> parts = {{300}, {200, {{0, 300}}}, {70, {{0, 300}}}, {33}};
  DeviceBatch batch = segment_batch(parts, on_.device);
  const at::Tensor qkv = random({603, 12, 64});
  const at::Tensor grad = random({603, 8 * 64});
  const AttentionResult want = attention_formula(qkv, grad, shape_, batch.segments());
  for (const AttentionBucket& bucket :
       {AttentionBucket{3, 500, 603, 903}, {16, 1024, 2048, 2048}, {256, 4096, 8192, 16384}}) {
    expect_close_by_rows(run_at(bucket, qkv, grad, batch), want, on_.tolerance,
                         std::to_string(bucket.num_sequences));
  }
}

TEST_F(CudnnAttention, APlanServesOtherBoundaries) {
  const at::Tensor qkv = random({1000, 12, 64});
  const at::Tensor grad = random({1000, 8 * 64});
  std::int64_t num_plans = 0;
  for (const std::vector<std::int32_t>& lengths :
       {std::vector<std::int32_t>{400, 600}, {1, 998, 1}, {500, 500}, {10, 20, 470, 500}}) {
    DeviceBatch batch = random_batch(lengths, 50, on_.device);
    expect_close_by_rows(run_attention(on_, qkv, grad, shape_, batch),
                         attention_formula(qkv, grad, shape_, lengths), on_.tolerance,
                         std::to_string(lengths.size()));
    if (num_plans == 0) num_plans = num_cudnn_plans();
    // Within [512, 1024] and up to 16 sequences: one bucket, but for the pack of short ones.
    EXPECT_LE(num_cudnn_plans(), num_plans + 2);
  }
}

TEST_F(CudnnAttention, LayersShareABatchsLayout) {
  DeviceBatch batch = random_batch({40, 60}, 50, on_.device);
  const at::Tensor qkv = random({100, 12, 64});
  attention_forward(qkv, shape_, batch);
  const auto first = batch.state.attention_layout;
  ASSERT_NE(first, nullptr);
  attention_forward(qkv, shape_, batch);
  EXPECT_EQ(batch.state.attention_layout, first);
  attention_forward(random({100, 6, 128}), {4, 1, 128, 0, {}, AttentionBackend::kCudnn}, batch);
  EXPECT_NE(batch.state.attention_layout, first);
}

// More elements than int32 counts: the end of the batch alone gives the same.
TEST_F(CudnnAttention, CountsElementsPastInt32) {
  const AttentionShape shape = {32, 32, 128, 0, {}, AttentionBackend::kCudnn};
  constexpr std::int64_t kLength = 512;
  constexpr std::int64_t kNumSequences = 344;
  const std::int64_t num_tokens = kLength * kNumSequences;
  DeviceBatch batch =
      random_batch(std::vector<std::int32_t>(kNumSequences, kLength), 50, on_.device);
  DeviceBatch last = random_batch({kLength}, 50, on_.device);
  const at::Tensor qkv = random({num_tokens, 96, 128});
  ASSERT_GT(qkv.numel(), std::int64_t{1} << 31);
  const at::Tensor grad = random({num_tokens, 32 * 128});
  const AttentionResult all = run_attention(on_, qkv, grad, shape, batch);
  const auto tail = [&](const at::Tensor& x) { return x.narrow(0, num_tokens - kLength, kLength); };
  const AttentionResult want = run_attention(on_, tail(qkv), tail(grad), shape, last);
  const AttentionResult found = {tail(all.y), tail(all.query), tail(all.key), tail(all.value)};
  expect_close_by_rows(found,
                       {want.y.to(at::kDouble), want.query.to(at::kDouble),
                        want.key.to(at::kDouble), want.value.to(at::kDouble)},
                       on_.tolerance, "last sequence");
}

TEST_F(CudnnAttention, GivesWayToFlashWhereRunsMustBeBitEqual) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  AttentionShape shape = {8, 2, 64};
  EXPECT_EQ(choose_attention_backend(shape, on_.device, on_.dtype), AttentionBackend::kFlash);
  EXPECT_THROW(choose_attention_backend(shape_, on_.device, on_.dtype), Error);
  DeviceBatch batch = random_batch({400, 30, 600}, 50, on_.device);
  const at::Tensor qkv = random({1030, 12, 64});
  const at::Tensor grad = random({1030, 8 * 64});
  const AttentionResult first = run_attention(on_, qkv, grad, shape, batch);
  const AttentionResult second = run_attention(on_, qkv, grad, shape, batch);
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_TRUE(first.query.equal(second.query));
  EXPECT_TRUE(first.key.equal(second.key));
}

}  // namespace
}  // namespace packtrain::attention_cudnn_test
