// Verification of groups whose examples share rows: whole, and with a segment that sees others.
#include <algorithm>
#include <optional>

#include "framework/core/random.h"
#include "framework/data/store_writer.h"
#include "tests/training/verification/fixture.h"

namespace packtrain::test {
namespace {

using Ids = std::vector<std::int32_t>;

// Pairs of a prompt of 5 to 16 tokens and answers of 3 to 12.
void write_random_pairs(const std::string& folder, std::int64_t num_pairs) {
  const CounterRandom random(7, "verified pairs");
  std::uint64_t draw = 0;
  const auto ids = [&](std::int32_t count) {
    Ids list;
    for (std::int32_t i = 0; i < count; ++i) {
      list.push_back(static_cast<std::int32_t>(random.below(draw++, 96)));
    }
    return list;
  };
  StoreInfo info;
  info.vocab_size = 96;
  info.sources = {"pairs"};
  info.groups = GroupInfo{GroupKind::kPairs, 0, false};
  const auto writer = StoreWriter::create(folder, info, false);
  for (std::int64_t p = 0; p < num_pairs; ++p) {
    const Ids prompt = ids(static_cast<std::int32_t>(5 + random.below(draw++, 12)));
    Ids examples[2];
    std::vector<std::uint8_t> masks[2];
    for (int e = 0; e < 2; ++e) {
      const Ids answer = ids(static_cast<std::int32_t>(3 + random.below(draw++, 10)));
      examples[e] = prompt;
      examples[e].insert(examples[e].end(), answer.begin(), answer.end());
      masks[e].assign(prompt.size(), 0);
      masks[e].resize(examples[e].size(), 1);
    }
    const GroupMember members[] = {{{examples[0], masks[0], 0}, GroupRole::kChosen},
                                   {{examples[1], masks[1], 0}, GroupRole::kRejected}};
    writer->add_group(members, std::nullopt);
  }
  writer->finish();
}

class VerifiedGroups : public VerificationTest {
 protected:
  VerifiedGroups() {
    write_random_pairs(pairs_ / "store", 30);
    config_.data.train = {{.path = pairs_ / "store"}};
    config_.objective.kind = ObjectiveKind::kSimpo;
    config_.batch.strategy = Strategy::kBalanced;
  }

 private:
  TemporaryFolder pairs_;
};

void set_longest(PackedBatch& batch) {
  batch.max_seqlen = 0;
  for (std::int64_t s = 0; s < batch.segments().size(); ++s) {
    batch.max_seqlen =
        std::max(batch.max_seqlen, static_cast<std::int32_t>(batch.segments()[s].num_keys()));
  }
}

const Names kAllButRanks = {"packed", "isolation", "boundaries", "attention"};

TEST_F(VerifiedGroups, PassWithAndWithoutSharedRows) {
  for (const Strategy strategy :
       {Strategy::kPadding, Strategy::kPaddingFree, Strategy::kMultipack, Strategy::kBalanced}) {
    for (const bool shared : {true, false}) {
      for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
        config_.batch.strategy = strategy;
        config_.batch.share_prefixes = shared;
        config_.precision.compute = config_.precision.reduce = precision;
        const VerificationReport report = verify();
        EXPECT_EQ(report.failed_checks(), Names())
            << static_cast<int>(strategy) << shared << all_failures(report);
      }
    }
  }
}

TEST_F(VerifiedGroups, PassWithLogProbabilitiesOfAReference) {
  for (const ObjectiveKind kind : {ObjectiveKind::kDpo, ObjectiveKind::kIpo}) {
    config_.objective.kind = kind;
    const VerificationReport report = verify();
    EXPECT_EQ(report.failed_checks(), Names()) << all_failures(report);
  }
}

TEST_F(VerifiedGroups, AReferenceAtTheRowsOfOtherLabelsIsFound) {
  config_.objective.kind = ObjectiveKind::kDpo;
  const VerificationReport report =
      verify_damaged([](PackedBatch& batch) { std::ranges::reverse(batch.reference); });
  EXPECT_EQ(report.failed_checks(), Names{"packed"}) << all_failures(report);
}

TEST_F(VerifiedGroups, ABranchThatSeesAnotherPrefixIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    batch.prefixes.back().rows = batch.prefixes.front().rows;
    set_longest(batch);
  });
  EXPECT_EQ(report.failed_checks(), kAllButRanks) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "isolation"), {"changing the first", "moved the loss of"}));
  EXPECT_TRUE(
      says(check_named(report, "isolation"), {"did not move the loss of", "which shares them"}));
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"of other pieces, rows"}));
  EXPECT_TRUE(says(check_named(report, "attention"), {"the attention weight"}));
}

TEST_F(VerifiedGroups, ABranchThatSeesItsSisterIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    SegmentPrefix& second = batch.prefixes[1];
    const auto sister = static_cast<std::size_t>(second.segment) - 1;
    second.rows.push_back({batch.cu_seqlens[sister], batch.cu_seqlens[sister + 1]});
    set_longest(batch);
  });
  EXPECT_EQ(report.failed_checks(), kAllButRanks) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "isolation"), {"changing example", "moved the loss of"}));
}

TEST_F(VerifiedGroups, ABranchWithoutItsPrefixIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    batch.prefixes.erase(batch.prefixes.begin());
    set_longest(batch);
  });
  EXPECT_EQ(report.failed_checks(), kAllButRanks) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"sees no rows of other pieces, rows"}));
}

}  // namespace
}  // namespace packtrain::test
