// Batches ahead of time: the same as planned one by one, and never late at the end of an epoch.
#include "training/steps/batch_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "collators/flattening.h"
#include "samplers/loss_counter.h"
#include "tests/samplers/memory_store.h"

namespace packtrain {
namespace {

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

bool is_prepared_within(const Planner& planner, std::int64_t epoch, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!planner.is_epoch_prepared(epoch)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(BatchSource, TheNextEpochIsMadeWhileThisOneIsTrained) {
  const test::MemoryStore store = make_store(200);
  const StoreLossCounter counter(store);
  PlanOptions options;
  options.global_batch_size = 10;
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
  const auto device = make_cpu_device({});
  ASSERT_EQ(planner.num_steps(1), 20);
  BatchSource source(store, planner, *device,
                     {.rank = 0, .max_tokens_per_micro_batch = 16384, .cost = {}, .speeds = {}}, 0,
                     planner.num_steps(3));
  // The steps made ahead end long before the epoch does.
  source.recycle(source.next());
  EXPECT_TRUE(is_prepared_within(planner, 1, std::chrono::seconds(60)));
  EXPECT_FALSE(planner.is_epoch_prepared(2));
  for (int step = 1; step <= 20; ++step) source.recycle(source.next());
  EXPECT_TRUE(is_prepared_within(planner, 2, std::chrono::seconds(60)));
}

}  // namespace
}  // namespace packtrain
