// Batches ahead of time: the same as planned one by one, and never late at the end of an epoch.
#include "framework/training/batch_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "collators/flattening.h"
#include "samplers/loss_counter.h"
#include "tests/samplers/memory_store.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

test::MemoryStore make_store(std::int32_t num_examples) {
  std::vector<test::MemoryExample> examples;
  for (std::int32_t e = 0; e < num_examples; ++e) {
    const auto length = static_cast<std::size_t>(2 + e % 5);
    examples.push_back(
        {std::vector<std::int32_t>(length, e % 100), std::vector<std::uint8_t>(length, 1)});
  }
  return test::MemoryStore(std::move(examples));
}

TEST(BatchSource, GivesEachStepAsPlannedFromAnyStepOn) {
  const test::MemoryStore store = make_store(100);
  const StoreLossCounter counter(store);
  PlanOptions options;
  options.global_batch_size = 7;
  options.num_ranks = 2;
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
  const auto device = make_cpu_device({});
  const std::int64_t total = planner.num_steps(3);
  for (const std::int64_t first : {std::int64_t{0}, total / 2, total - 1, total}) {
    BatchSource source(store, planner, *device,
                       {.rank = 1, .max_tokens_per_micro_batch = 16384, .cost = {}, .speeds = {}},
                       first, total);
    for (std::int64_t step = first; step < total; ++step) {
      PreparedStep prepared = source.next();
      const StepPlan expected = planner.plan(step);
      EXPECT_EQ(prepared.plan.ranks, expected.ranks);
      ASSERT_EQ(prepared.micro_batches.size(), expected.ranks[1].size());
      EXPECT_EQ(prepared.micro_batches.front().pieces, expected.ranks[1].front());
      const auto alone = flatten(store, expected.ranks[1].front(),
                                 loss_normalization(expected, Normalize::kTokens));
      EXPECT_TRUE(std::ranges::equal(prepared.micro_batches.front().labels, alone.labels));
      source.recycle(std::move(prepared));
    }
  }
}

// So many examples that making an epoch takes far longer than the steps that are ready.
class AlikeStore final : public TokenStore {
 public:
  static constexpr std::size_t kNumExamples = 1'000'000;

  AlikeStore() {
    for (std::size_t e = 0; e < kNumExamples; ++e) {
      lengths_[e] = static_cast<std::int32_t>(2 + e * 7919 % 97);
    }
  }

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  std::span<const std::int32_t> lengths() const override { return lengths_; }
  std::span<const std::int32_t> num_loss_tokens() const override { return num_loss_tokens_; }
  std::span<const std::int32_t> input_ids(std::int64_t) const override { return ids_; }
  std::span<const std::uint8_t> loss_mask(std::int64_t) const override { return mask_; }
  std::int16_t source(std::int64_t) const override { return 0; }
  std::string fingerprint() const override { return "alike"; }

 private:
  std::vector<std::int32_t> ids_ = std::vector<std::int32_t>(100, 1);
  std::vector<std::uint8_t> mask_ = std::vector<std::uint8_t>(100, 1);
  std::vector<std::int32_t> lengths_ = std::vector<std::int32_t>(kNumExamples);
  std::vector<std::int32_t> num_loss_tokens_ = std::vector<std::int32_t>(kNumExamples, 1);
  StoreInfo info_;
  std::string folder_ = "alike";
};

TEST(BatchSource, TheNextEpochIsMadeWhileThisOneIsTrained) {
  const AlikeStore store;
  const StoreLossCounter counter(store);
  PlanOptions options;
  options.global_batch_size = AlikeStore::kNumExamples / 20;
  options.order = OrderKind::kGroupByLength;  // a sort: slow to make
  options.strategy = Strategy::kPaddingFree;
  options.num_ranks = 100;
  options.micro_batch_size = 50;
  const auto device = make_cpu_device({});
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
  const auto begin = Clock::now();
  planner.prepare_epoch(7);
  const double epoch_s = seconds_since(begin);
  const std::int64_t total = planner.num_steps(2);
  BatchSource source(store, planner, *device,
                     {.rank = 0, .max_tokens_per_micro_batch = 16384, .cost = {}, .speeds = {}}, 0,
                     total);
  for (std::int64_t step = 0; step < total; ++step) {
    std::this_thread::sleep_for(std::chrono::duration<double>(epoch_s / 10));
    source.take_wait_s();
    PreparedStep prepared = source.next();
    if (prepared.plan.epoch == 1 && step == planner.num_steps(1)) {
      EXPECT_LT(source.take_wait_s(), epoch_s / 3);
    }
    source.recycle(std::move(prepared));
  }
}

}  // namespace
}  // namespace packtrain
