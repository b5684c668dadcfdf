// A collective that goes wrong on one rank, and results that differ from rank to rank.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "collators/flattening.h"
#include "parallel/communicators/forwarding_communicator.h"
#include "tests/training/verification/fixture.h"

namespace packtrain::test {
namespace {

constexpr int kFaultyRank = 1;

enum class Fault { kNone, kLostReduction, kStaleWeights };

// Passes everything on; on one rank a result is overwritten with zeros.
class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> real, Fault fault)
      : ForwardingCommunicator(std::move(real)), fault_(fault) {}

  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override {
    ForwardingCommunicator::all_gather(send, receive, count, type, stream);
    if (strikes(Fault::kStaleWeights)) {
      std::memset(receive, 0, count * size_of(type));  // rank 0's part
    }
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override {
    ForwardingCommunicator::reduce_scatter(send, receive, count, type, stream);
    if (strikes(Fault::kLostReduction)) std::memset(receive, 0, count * size_of(type));
  }

 private:
  bool strikes(Fault fault) const { return fault == fault_ && rank() == kFaultyRank; }

  Fault fault_;
};

class FaultyWorld final : public World {
 public:
  explicit FaultyWorld(Fault fault) : fault_(fault) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  int local_rank() const override { return real_.local_rank(); }
  int local_size() const override { return real_.local_size(); }
  const std::string& host() const override { return real_.host(); }
  Backend on_cpu() const override { return real_.on_cpu(); }
  Communicator& control() override { return real_.control(); }
  std::unique_ptr<Communicator> connect(Backend backend,
                                        const CommunicatorOptions& options) override {
    return std::make_unique<FaultyCommunicator>(real_.connect(backend, options), fault_);
  }
  [[noreturn]] void fail(const std::string& text, int exit_code) override {
    real_.fail(text, exit_code);
    std::abort();  // gcc does not see that a virtual function never returns
  }

 private:
  World& real_ = test_world();
  Fault fault_;
};

using DamagedRanks = VerificationTest;

TEST_F(DamagedRanks, ALostReductionIsFoundWithItsRankAndParameter) {
  if (test_world().size() == 1) return;  // one rank reduces nothing
  FaultyWorld sound(Fault::kNone);
  EXPECT_EQ(run_verification(config_, sound).failed_checks(), Names());
  FaultyWorld faulty(Fault::kLostReduction);
  const VerificationReport report = run_verification(config_, faulty);
  EXPECT_EQ(report.failed_checks(), Names({"ranks"})) << all_failures(report);
  const CheckResult& check = check_named(report, "ranks");
  EXPECT_TRUE(says(check, {"rank 1: gradient of layers.1.mlp.gate_up.weight, elements"}))
      << all_failures(report);
  EXPECT_FALSE(says(check, {"rank 0"}));
}

TEST_F(DamagedRanks, WeightsThatARankHasNotReceivedAreFound) {
  if (test_world().size() == 1) return;  // one rank gathers nothing
  FaultyWorld faulty(Fault::kStaleWeights);
  const VerificationReport report = run_verification(config_, faulty);
  EXPECT_EQ(report.failed_checks(), Names({"ranks"})) << all_failures(report);
  EXPECT_TRUE(says(check_named(report, "ranks"), {"the step's loss is"})) << all_failures(report);
}

TEST_F(DamagedRanks, ACollatorThatIsWrongOnOneRankIsFoundThere) {
  if (test_world().size() == 1) return;
  VerificationOptions options;
  int num_made = 0;
  options.collate = [&](const TokenStore& store, const MicroBatch& pieces,
                        const LossNormalization& normalization, const CollatorOptions& collator) {
    PackedBatch batch = flatten(store, pieces, normalization, collator);
    const bool is_wrong = test_world().rank() == kFaultyRank && num_made++ < 2;
    if (is_wrong) batch.position_ids[0] = 7;
    return batch;
  };
  const VerificationReport report = verify(options);
  EXPECT_TRUE(says(check_named(report, "boundaries"), {"rank 1: micro-batch 0 of rank 1"}))
      << all_failures(report);
  EXPECT_FALSE(says(check_named(report, "boundaries"), {"rank 0"}));
}

TEST(MergedResults, HoldTheWorstOfAllRanksAndWhoSawIt) {
  World& world = test_world();
  CheckResult mine{.name = "n", .claim = "c", .case_name = "things", .errors = {{"loss"}, {"nan"}}};
  mine.num_cases = 3;
  mine.note_error("loss", 0.25 * (world.rank() + 1), "place " + std::to_string(world.rank()));
  const bool is_last = world.rank() == world.size() - 1;
  mine.note_error("nan", is_last ? std::numeric_limits<double>::quiet_NaN() : 9, "");
  mine.fail("everybody sees this");
  if (is_last) {
    for (std::size_t n = 0; n < CheckResult::kMaxListed; ++n)
      mine.fail("number " + std::to_string(n));
  }
  const CheckResult merged = merge_over_ranks(mine, world.control());
  EXPECT_EQ(merged.num_cases, 3 * world.size());
  EXPECT_DOUBLE_EQ(merged.errors[0].value, 0.25 * world.size());
  EXPECT_EQ(merged.errors[0].where, "place " + std::to_string(world.size() - 1));
  EXPECT_TRUE(std::isnan(merged.errors[1].value));
  EXPECT_EQ(merged.failures[0], "everybody sees this");
  EXPECT_EQ(merged.failures.size(), CheckResult::kMaxListed);
  EXPECT_EQ(merged.num_failures, CheckResult::kMaxListed + 1);
  const std::string who = world.size() > 1 ? "rank " + std::to_string(world.size() - 1) + ": " : "";
  EXPECT_EQ(merged.failures[1], who + "number 0");
}

}  // namespace
}  // namespace packtrain::test
