#include "training/plan/step_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "tests/parallel/communicators/thread_ranks.h"
#include "tests/samplers/lengths.h"

namespace packtrain {
namespace {

constexpr std::int64_t kNumEpochs = 41;
const test::EveryTokenCounts kCounter;

// Counts the requests for lengths by all threads, and fails on request.
class CountedLengths final : public CountSource {
 public:
  explicit CountedLengths(std::span<const std::int32_t> lengths) : lengths_(lengths) {}
  std::size_t size() const override { return lengths_.size(); }
  std::int32_t count(std::size_t example) const override {
    if (fails_) throw Error(ErrorCategory::kData, "a length cannot be read");
    ++num_asked_;
    return lengths_[example];
  }
  std::int64_t num_asked() const { return num_asked_; }
  void fail_from_now_on() { fails_ = true; }

 private:
  std::span<const std::int32_t> lengths_;
  mutable std::int64_t num_asked_ = 0;
  bool fails_ = false;
};

PlanOptions in_tokens() {
  PlanOptions options;
  options.global_batch_size = 0;
  options.global_batch_tokens = 900;
  return options;
}

RunSection run_of(std::int64_t num_epochs) {
  RunSection run;
  run.num_epochs = num_epochs;
  return run;
}

TEST(RunSteps, AreThoseThatOneRankCounts) {
  const test::Examples examples = test::draw_examples(2, 200, 600);
  const Planner one(examples.lengths, examples.num_loss_tokens, kCounter, in_tokens());
  for (const std::int64_t num_epochs : {1L, 2L, kNumEpochs}) {
    test::run_ranks(4, [&](Communicator& control) {
      const Planner planner(examples.lengths, examples.num_loss_tokens, kCounter, in_tokens());
      EXPECT_EQ(count_run_steps(planner, run_of(num_epochs), control), one.num_steps(num_epochs));
    });
  }
}

TEST(RunSteps, AreCountedByEachRankForAShareOfTheEpochs) {
  const test::Examples examples = test::draw_examples(2, 200, 600);
  const auto num_asked = [&](Communicator& control, std::int64_t num_epochs) {
    const CountedLengths lengths(examples.lengths);
    const Planner planner(lengths, examples.num_loss_tokens, kCounter, in_tokens());
    const std::int64_t before = lengths.num_asked();
    count_run_steps(planner, run_of(num_epochs), control);
    return lengths.num_asked() - before;
  };
  std::int64_t of_one_epoch = 0;
  test::run_ranks(1, [&](Communicator& control) { of_one_epoch = num_asked(control, 1); });
  ASSERT_GT(of_one_epoch, 0);
  test::run_ranks(4, [&](Communicator& control) {
    EXPECT_LE(num_asked(control, kNumEpochs), 11 * of_one_epoch);  // 41 / 4
  });
}

TEST(RunSteps, FailOnEveryRankWhereTheyFailOnOne) {
  const test::Examples examples = test::draw_examples(2, 200, 600);
  std::atomic<int> num_failed = 0;
  test::run_ranks(4, [&](Communicator& control) {
    CountedLengths lengths(examples.lengths);
    const Planner planner(lengths, examples.num_loss_tokens, kCounter, in_tokens());
    if (control.rank() == 2) lengths.fail_from_now_on();
    try {
      count_run_steps(planner, run_of(kNumEpochs), control);
    } catch (const Error&) {
      ++num_failed;
    }
  });
  EXPECT_EQ(num_failed, 4);
}

}  // namespace
}  // namespace packtrain
