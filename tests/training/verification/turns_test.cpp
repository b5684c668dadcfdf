// Verification of conversations whose turns are examples of next-token training.
#include <algorithm>
#include <optional>

#include "framework/core/random.h"
#include "framework/data/store_writer.h"
#include "tests/samplers/conversations.h"
#include "tests/training/verification/fixture.h"

namespace packtrain::test {
namespace {

constexpr std::int32_t kVocabulary = 96;

// Ids of the drawn conversations, mixed into the vocabulary.
void write_conversations(const std::string& folder, std::int64_t count) {
  StoreInfo info;
  info.vocab_size = kVocabulary;
  info.sources = {"chats"};
  info.groups = GroupInfo{GroupKind::kTurns, 0, false};
  const auto writer = StoreWriter::create(folder, info, false);
  const CounterRandom random(7, "verified conversations");
  std::uint64_t number = 0;
  for (MemoryGroup& group : draw_conversations(3, count, 40, 5)) {
    std::vector<GroupMember> members;
    const std::uint64_t first = ++number << 32U;
    for (DrawnMember& drawn : group.members) {
      for (std::int32_t& id : drawn.example.input_ids) {
        const auto place = first + static_cast<std::uint64_t>(id);
        id = static_cast<std::int32_t>(random.below(place, kVocabulary));
      }
      members.push_back({{drawn.example.input_ids, drawn.example.loss_mask, 0}, drawn.role});
    }
    writer->add_group(members, std::nullopt);
  }
  writer->finish();
}

class VerifiedTurns : public VerificationTest {
 protected:
  VerifiedTurns() {
    write_conversations(chats_ / "store", 24);
    config_.batch.max_tokens_per_micro_batch = 640;  // of padded groups of five
    config_.data.train = {{.path = chats_ / "store"}};
    config_.batch.strategy = Strategy::kBalanced;
  }

 private:
  TemporaryFolder chats_;
};

TEST_F(VerifiedTurns, HaveTheLossesAndGradientsOfExamplesAlone) {
  for (const Strategy strategy :
       {Strategy::kPadding, Strategy::kPaddingFree, Strategy::kMultipack, Strategy::kBalanced}) {
    for (const Normalize normalize : {Normalize::kTokens, Normalize::kExamples}) {
      for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
        config_.batch.strategy = strategy;
        config_.batch.normalize = normalize;
        config_.precision.compute = config_.precision.reduce = precision;
        const VerificationReport report = verify();
        EXPECT_EQ(report.failed_checks(), Names())
            << static_cast<int>(strategy) << all_failures(report);
      }
    }
  }
}

TEST_F(VerifiedTurns, HaveThemWithoutSharedRowsToo) {
  config_.batch.share_prefixes = false;
  const VerificationReport report = verify();
  EXPECT_EQ(report.failed_checks(), Names()) << all_failures(report);
}

TEST_F(VerifiedTurns, ATurnThatSeesMoreOfThePromptThanItFollowsIsFound) {
  const VerificationReport report = verify_damaged([](PackedBatch& batch) {
    for (SegmentPrefix& prefix : batch.prefixes) {
      const auto next = std::ranges::upper_bound(batch.cu_seqlens, prefix.rows.front().begin);
      prefix.rows.front().end = *next;
    }
    batch.max_seqlen = 0;
    for (std::int64_t s = 0; s < batch.segments().size(); ++s) {
      batch.max_seqlen =
          std::max(batch.max_seqlen, static_cast<std::int32_t>(batch.segments()[s].num_keys()));
    }
  });
  const Names failed = report.failed_checks();
  for (const char* name : {"packed", "boundaries"}) {
    EXPECT_TRUE(std::ranges::find(failed, name) != failed.end()) << name << all_failures(report);
  }
}

}  // namespace
}  // namespace packtrain::test
