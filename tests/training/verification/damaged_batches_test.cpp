// Each protection of a packed batch, switched off: the right checks notice, and say where.
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "collators/flattening.h"
#include "tests/training/verification/fixture.h"

namespace packtrain::test {
namespace {

using DamagedBatch = VerificationTest;

std::size_t as_index(std::int32_t value) {
  return static_cast<std::size_t>(value);
}

// The first two examples share a sequence.
void merge_sequences(PackedBatch& batch) {
  std::copy(batch.cu_seqlens.begin() + 2, batch.cu_seqlens.end(), batch.cu_seqlens.begin() + 1);
  batch.cu_seqlens = batch.cu_seqlens.first(batch.cu_seqlens.size() - 1);
  batch.max_seqlen = std::max(batch.max_seqlen, batch.cu_seqlens[1]);
}

void run_positions_on(PackedBatch& batch) {
  std::iota(batch.position_ids.begin(), batch.position_ids.end(), 0);
}

std::string name(const Piece& piece) {
  return "example " + std::to_string(piece.example);
}

TEST_F(DamagedBatch, ASequenceOfTwoExamplesIsContamination) {
  Piece first;
  Piece second;
  const VerificationReport report = verify_damaged([&](PackedBatch& batch) {
    if (first.length == 0) std::tie(first, second) = std::pair(batch.pieces[0], batch.pieces[1]);
    merge_sequences(batch);
  });
  EXPECT_EQ(report.failed_checks(), Names({"packed", "isolation", "boundaries", "attention"}));
  // `first` and `second` are of the first micro-batch that was made: rank 0's.
  EXPECT_TRUE(
      says(check_named(report, "isolation"),
           {"changing " + name(first), "the loss of " + name(second), "micro-batch 0 of rank 0"}))
      << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "packed"), {name(second), "loss differs"}));
  EXPECT_TRUE(says(check_named(report, "packed"), {"gradient of layers.0.attention.qkv.weight"}));
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"cu_seqlens", name(second) + " starts"}));
  EXPECT_TRUE(says(check_named(report, "attention"), {"gives token 0 of " + name(first)}));
}

TEST_F(DamagedBatch, AttentionAcrossExamplesIsContaminationEvenWhenAskedFor) {
  config_.batch.strategy = Strategy::kFixedLength;
  EXPECT_EQ(verify().failed_checks(), Names());
  config_.batch.cross_example_attention = true;
  const VerificationReport report = verify();
  EXPECT_EQ(report.failed_checks(), Names({"packed", "isolation", "boundaries", "attention"}))
      << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "isolation"), {"changing example", "moved the loss of"}));
}

TEST_F(DamagedBatch, ABoundaryInsideAnExampleIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    batch.cu_seqlens[1] -= 2;  // the end of the first example goes to the second
    batch.max_seqlen += 2;
  });
  EXPECT_EQ(report.failed_checks(), Names({"packed", "isolation", "boundaries", "attention"}));
}

TEST_F(DamagedBatch, ASegmentThatSeesAnotherExampleIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    batch.prefixes.push_back({1, {{0, batch.cu_seqlens[1]}}});
    batch.max_seqlen = std::max(batch.max_seqlen, batch.cu_seqlens[2]);
  });
  EXPECT_EQ(report.failed_checks(), Names({"packed", "isolation", "boundaries", "attention"}))
      << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "boundaries"),
                   {"sees rows 0 to", "of other pieces, no rows in the plan"}));
}

TEST_F(DamagedBatch, PositionsThatRunOnAreFoundThoughAttentionIsRight) {
  const VerificationReport report = verify_damaged(run_positions_on);
  EXPECT_EQ(report.failed_checks(), Names({"boundaries"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"token 0 of example", "position ID"}));
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"boundaries from position IDs", "starts"}));
}

TEST_F(DamagedBatch, ALabelFromTheNextExampleIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    const auto last = as_index(batch.cu_seqlens[1]) - 1;  // of the first example: has no label
    const auto index = std::ranges::find(batch.loss_index, static_cast<std::int32_t>(last) - 1);
    *index = static_cast<std::int32_t>(last);
    batch.labels[last] = batch.input_ids[last + 1];
    batch.labels[last - 1] = kNoLabel;
  });
  EXPECT_EQ(report.failed_checks(), Names({"packed", "isolation"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "packed"), {"example", "has label"}));
  EXPECT_TRUE(says(check_named(report, "isolation"), {"changing example", "moved the loss of"}));
}

TEST_F(DamagedBatch, AnOmittedLabelIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    batch.loss_index = batch.loss_index.subspan(1);
    batch.loss_weight = batch.loss_weight.subspan(1);
  });
  EXPECT_EQ(report.failed_checks(), Names({"packed"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "packed"), {"supervised tokens packed"}));
}

TEST_F(DamagedBatch, AWrongLossWeightIsFound) {
  const VerificationReport report =
      verify_damaged([](PackedBatch& batch) { batch.loss_weight[0] *= 1.5F; });
  EXPECT_EQ(report.failed_checks(), Names({"packed"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "packed"), {"example", "weighs"}));
}

TEST_F(DamagedBatch, ALabelOnAPadIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    if (batch.num_real_tokens == std::ssize(batch.input_ids)) return;
    batch.labels.back() = 1;
    batch.loss_index.back() = static_cast<std::int32_t>(batch.labels.size()) - 1;
  });
  EXPECT_EQ(report.failed_checks(), Names({"packed"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "packed"), {"row", "belongs to no example"}));
}

TEST_F(DamagedBatch, AnotherTokenIsFound) {
  const VerificationReport report = verify_damaged(
      [](PackedBatch& batch) { batch.input_ids[0] = (batch.input_ids[0] + 1) % 96; });
  EXPECT_EQ(report.failed_checks(), Names({"packed", "boundaries"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"do not hold the tokens of example"}));
}

TEST_F(DamagedBatch, IsNoticedInBFloat16Too) {
  config_.precision.compute = config_.precision.reduce = Precision::kBFloat16;
  EXPECT_EQ(verify_damaged(merge_sequences).failed_checks(),
            Names({"packed", "isolation", "boundaries", "attention"}));
}

TEST_F(DamagedBatch, InALaterStepNamesTheStep) {
  int num_made = 0;
  const int num_of_first_step = test_world().size();  // one micro-batch a rank
  VerificationOptions options{.num_examples = 4, .num_steps = 2, .collate = {}};
  options.collate = [&](const TokenStore& store, const MicroBatch& pieces,
                        const LossNormalization& normalization, const CollatorOptions& collator) {
    PackedBatch batch = flatten(store, pieces, normalization, collator);
    ++num_made;
    const bool is_second_step = num_made > num_of_first_step && num_made <= 2 * num_of_first_step;
    if (is_second_step) batch.loss_weight[0] *= 1.5F;
    return batch;
  };
  const VerificationReport report = verify(options);
  EXPECT_EQ(report.failed_checks(), Names({"packed"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "packed"), {"step 1: example", "weighs"}));
  EXPECT_FALSE(says(check_named(report, "packed"), {"step 0"}));
}

}  // namespace
}  // namespace packtrain::test
