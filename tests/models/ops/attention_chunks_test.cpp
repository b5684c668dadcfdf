// Attention in chunks: the boundaries of chunks, and the formula of a pattern with chunks.
#include "models/ops/attention/chunks.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "models/ops/attention/attention_bytes.h"
#include "models/ops/attention/backends.h"
#include "tests/models/cases.h"
#include "tests/models/ops/attention_reference.h"

namespace packtrain::attention_chunks_test {
namespace {

class ChunkedAttention : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ChunkedAttention, testing::ValuesIn(operator_cases()), case_name);

using Parts = std::vector<SegmentPart>;
using Boundaries = std::vector<std::int32_t>;

const Parts kSequences = {{1}, {130}, {7}, {0}, {64}, {5}, {33}};
// Prefixes that end in a chunk and at its end, of two ranges, and without own rows after them.
const Parts kPrefixed = {{40},           {25, {{0, 40}}},           {30, {{0, 40}}},
                         {16},           {21, {{0, 40}, {65, 90}}}, {9, {{95, 111}}},
                         {12, {{5, 37}}}};

void expect_chunks(const OperatorCase& on, const AttentionShape& shape, const Parts& parts,
                   const Parameter* sinks = nullptr) {
  DeviceBatch batch = segment_batch(parts, on.device);
  const std::int64_t num_rows = batch.cu_seqlens_host.back();
  const at::Tensor qkv = random_tensor(
      on, {num_rows, shape.num_heads + 2 * shape.num_kv_heads, shape.head_dim}, "qkv");
  const at::Tensor grad =
      random_tensor(on, {num_rows, shape.num_heads * shape.head_dim}, "gradient");
  expect_close_by_rows(
      run_attention(on, qkv, grad, shape, batch, sinks),
      attention_formula(qkv, grad, shape, batch.segments(),
                        sinks != nullptr ? sinks->value : at::Tensor()),
      on.tolerance,
      fmt::format("{}, chunk {}, {} segments", attention_backend_name(shape.backend),
                  shape.pattern.chunk, parts.size()));
}

TEST_P(ChunkedAttention, MatchesItsFormulaOnEveryBackend) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    for (const std::int64_t chunk : {1, 7, 16, 64, 129, 130, 5000}) {
      expect_chunks(on, {4, 2, 64, 0.3, {.chunk = chunk}, backend}, kSequences);
    }
  }
}

TEST_P(ChunkedAttention, CountsTheKeysOfAPrefixInItsChunks) {
  const OperatorCase& on = GetParam();
  for (const AttentionBackend backend : backends_on(on)) {
    if (backend == AttentionBackend::kReference && on.device.is_cuda()) continue;
    for (const std::int64_t chunk : {1, 7, 16, 40, 41, 64, 5000}) {
      expect_chunks(on, {4, 1, 64, 0, {.chunk = chunk}, backend}, kPrefixed);
    }
  }
}

TEST_P(ChunkedAttention, MatchesItsFormulaWithSinksAndSoftCaps) {
  const OperatorCase& on = GetParam();
  const Parameter sinks = random_parameter(on, {6}, "sinks");
  for (const double cap : {0.0, 2.0}) {
    expect_chunks(on, {6, 3, 32, 0.3, {.chunk = 16}, AttentionBackend::kAuto, cap}, kSequences,
                  &sinks);
  }
}

TEST_P(ChunkedAttention, KeepsItsBoundariesForTheNextLayers) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch = segment_batch(kSequences, on.device);
  EXPECT_EQ(&chunks_of(batch, 130), &batch);  // no sequence is longer
  DeviceBatch& chunks = chunks_of(batch, 16);
  EXPECT_NE(&chunks, &batch);
  EXPECT_EQ(&chunks_of(batch, 16), &chunks);
  EXPECT_EQ(chunks.max_seqlen, 16);
  EXPECT_NE(&chunks_of(batch, 7), &chunks);
  batch.state.forget_boundaries();
  EXPECT_TRUE(batch.state.chunks.empty());
}

// The batch of a graph has no boundaries on the host.
TEST_P(ChunkedAttention, HasTheSameBoundariesWithoutThoseOfTheHost) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t chunk : {1, 7, 16, 64, 129}) {
    DeviceBatch batch = segment_batch(kSequences, on.device);
    const std::int64_t num_rows = batch.cu_seqlens_host.back();
    const at::Tensor made =
        divided_boundaries(batch.cu_seqlens, num_rows, chunk).to(at::kCPU).contiguous();
    EXPECT_EQ(made.size(0), std::ssize(kSequences) + num_rows / chunk + 1);
    const auto* data = made.const_data_ptr<std::int32_t>();
    const Boundaries& host = chunks_of(batch, chunk).cu_seqlens_host;
    // Sequences without rows change nothing.
    EXPECT_TRUE(std::is_sorted(data, data + made.numel())) << chunk;
    EXPECT_EQ(std::set(data, data + made.numel()), std::set(host.begin(), host.end())) << chunk;
  }
}

TEST(DividedSegments, BeginAtMultiplesOfTheChunkFromTheBeginningOfEachSequence) {
  const Boundaries boundaries = {0, 3, 3, 11, 12};
  const DividedSegments divided = divide_segments({boundaries, {}}, 3);
  EXPECT_EQ(divided.boundaries, (Boundaries{0, 3, 3, 6, 9, 11, 12}));
  EXPECT_TRUE(divided.prefixes.empty());
  EXPECT_EQ(divided.longest, 3);
}

TEST(DividedSegments, SeeTheRowsOfAPrefixThatAreInTheirChunk) {
  const Boundaries boundaries = {0, 5, 12, 14};
  const std::vector<SegmentPrefix> prefixes = {{1, {{0, 5}}}, {2, {{0, 3}, {5, 6}}}};
  const DividedSegments divided = divide_segments({boundaries, prefixes}, 4);
  // The second segment has positions 5 to 11, the third 4 and 5.
  EXPECT_EQ(divided.boundaries, (Boundaries{0, 4, 5, 8, 12, 14}));
  ASSERT_EQ(divided.prefixes.size(), 1U);
  EXPECT_EQ(divided.prefixes[0].segment, 2);
  EXPECT_EQ(divided.prefixes[0].rows, (std::vector<RowRange>{{4, 5}}));
  EXPECT_EQ(divided.longest, 4);
}

TEST(ChunkedAttention, IsPlannedAsTheAttentionOfMoreAndShorterSequences) {
  const AttentionShape full = {8, 2, 64};
  AttentionShape chunked = full;
  chunked.pattern.chunk = 100;
  const auto bytes = [](const AttentionShape& shape, std::int64_t num_sequences) {
    const AttentionBytes planned = attention_backward_bytes(
        shape, {.num_tokens = 1000, .num_sequences = num_sequences, .max_tokens = 1000}, at::kCUDA,
        at::kBFloat16);
    return std::pair(planned.gradients, planned.workspace);
  };
  EXPECT_EQ(bytes(chunked, 3), bytes(full, 13));
  EXPECT_EQ(choose_attention_backend(chunked, at::kCPU, at::kFloat), AttentionBackend::kReference);
}

}  // namespace
}  // namespace packtrain::attention_chunks_test
