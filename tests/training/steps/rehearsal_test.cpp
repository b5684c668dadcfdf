// Tests which micro-batches a run rehearses, and that a rehearsal does not change a run.
#include "training/steps/rehearsal.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "collators/collator.h"
#include "collators/flattening.h"
#include "models/decoder/decoder.h"
#include "parallel/communicators/world.h"
#include "samplers/loss_counter.h"
#include "tests/samplers/group_store.h"
#include "tests/samplers/memory_store.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

constexpr SizeOptions kSizes{.vocab_size = 100, .hidden_size = 16};
constexpr SizeOptions kInPlace{.vocab_size = 100, .hidden_size = 16, .sums_micro_batches = true};

// Lengths from 2 to `longest`, the first half of each example supervised.
test::MemoryStore make_store(int num_examples, int longest) {
  std::vector<test::MemoryExample> examples;
  for (int e = 0; e < num_examples; ++e) {
    const auto length = static_cast<std::size_t>(2 + e * 7919 % (longest - 1));
    std::vector<std::uint8_t> mask(length, 0);
    std::fill_n(mask.begin(), length / 2 + 1, std::uint8_t{1});
    examples.push_back({std::vector<std::int32_t>(length, e % 100), std::move(mask)});
  }
  return test::MemoryStore(std::move(examples));
}

// Lengths and counts alone: a look at a token or mask ends the test.
class UnreadableStore final : public TokenStore {
 public:
  explicit UnreadableStore(std::vector<test::MemoryExample> examples)
      : counts_(std::move(examples)) {}
  const StoreInfo& info() const override { return counts_.info(); }
  const std::string& folder() const override { return counts_.folder(); }
  ExampleCounts lengths() const override { return counts_.lengths(); }
  ExampleCounts num_loss_tokens() const override { return counts_.num_loss_tokens(); }
  std::span<const std::int32_t> input_ids(std::int64_t) const override {
    return fail(), std::span<const std::int32_t>();
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t) const override {
    return fail(), std::span<const std::uint8_t>();
  }
  std::int16_t source(std::int64_t) const override { return 0; }
  std::string fingerprint() const override { return "unreadable"; }

 private:
  static void fail() { ADD_FAILURE() << "a token was read"; }

  test::MemoryStore counts_;
};

class RehearsalTest : public ::testing::Test {
 protected:
  Planner make_planner(int num_ranks) {
    PlanOptions options;
    options.strategy = Strategy::kBalanced;
    options.global_batch_size = 6;
    options.max_tokens_per_micro_batch = 2560;
    options.num_ranks = num_ranks;
    return {store_.lengths(), store_.num_loss_tokens(), counter_, options};
  }

  // Of all micro-batches of steps `first` to the end of the first epoch.
  std::set<SizeKey> keys_of_epoch(const Planner& planner, std::int64_t first,
                                  const SizeOptions& sizes) {
    std::set<SizeKey> keys;
    for (std::int64_t step = first; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      const bool accumulated = sizes.sums_micro_batches && plan.num_micro_batches() > 1;
      for (const auto& micro_batches : plan.ranks) {
        for (const MicroBatch& pieces : micro_batches) {
          keys.merge(size_keys(sizes_of(flatten(store_, pieces, {})), accumulated, sizes));
        }
      }
    }
    return keys;
  }

  test::MemoryStore store_ = make_store(300, 1200);
  StoreLossCounter counter_{store_};
};

TEST_F(RehearsalTest, HasEverySizeOfTheEpochOnce) {
  for (const auto& [num_ranks, sizes] :
       {std::pair(1, kInPlace), std::pair(2, kSizes), std::pair(2, kInPlace)}) {
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{30}}) {
      const Planner planner = make_planner(num_ranks);
      const RehearsalPlan plan =
          plan_rehearsals(planner, store_, first, planner.num_steps(3), sizes);
      std::set<SizeKey> met;
      for (const Rehearsal& rehearsal : plan.rehearsals) {
        const PackedBatch batch = flatten(store_, rehearsal.pieces, {});
        const std::size_t before = met.size();
        met.merge(size_keys(sizes_of(batch), rehearsal.accumulated, sizes));
        EXPECT_GT(met.size(), before) << "asks for something new";
        EXPECT_LE(std::ssize(batch.input_ids), plan.largest_num_rows);
      }
      EXPECT_EQ(met, keys_of_epoch(planner, first, sizes))
          << num_ranks << " ranks from step " << first;
    }
  }
}

// A step of two million tokens.
TEST_F(RehearsalTest, LooksAtAFewRanksOfManyAndReadsNoToken) {
  constexpr int kRanks = 1024;
  std::vector<test::MemoryExample> examples(
      4 * kRanks, {std::vector<std::int32_t>(2000, 1), std::vector<std::uint8_t>(2000, 1)});
  const UnreadableStore store(std::move(examples));
  PlanOptions options;
  options.strategy = Strategy::kBalanced;
  options.global_batch_size = 2 * kRanks;
  options.max_tokens_per_micro_batch = 2048;
  options.num_ranks = kRanks;
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter_, options);
  const RehearsalPlan plan = plan_rehearsals(planner, store, 0, planner.num_steps(1), kSizes);
  ASSERT_FALSE(plan.rehearsals.empty());
  EXPECT_LE(std::ssize(plan.rehearsals), 64);
  EXPECT_EQ(plan.largest_num_rows, 2048);
}

TEST(BatchSizes, AreKnownBeforeABatchIsCollated) {
  const test::MemoryStore store = make_store(40, 300);
  const std::int32_t length = store.lengths()[7];
  ASSERT_GT(length, 20);
  const Piece whole{.example = 7, .length = length};
  const Piece head{.example = 7, .length = 10, .continues = true};
  const Piece tail{.example = 7, .begin = 10, .length = length - 10, .joined = true};
  const Piece cut{.example = 7, .length = 10};
  const Piece other{.example = 8, .length = store.lengths()[8]};
  for (const Strategy strategy : {Strategy::kPadding, Strategy::kBalanced}) {
    for (const MicroBatch& pieces :
         {MicroBatch{}, {whole}, {whole, other}, {head, other}, {cut, cut, other}}) {
      const PackedBatch batch = find_collator(strategy)(store, pieces, {}, {}, {});
      EXPECT_EQ(sizes_of(pieces, strategy, store), sizes_of(batch)) << pieces.size();
    }
  }
  const MicroBatch joined{head, tail, other};
  EXPECT_EQ(sizes_of(joined, Strategy::kBalanced, store), sizes_of(flatten(store, joined, {})));
}

// A group's first example continues the shared rows, so it needs no copy of them.
TEST(BatchSizes, CountTheCopiesOfSharedPrefixes) {
  const test::GroupStore store(GroupKind::kPairs, {test::pair(50, 20, 30), test::pair(9, 1, 70)});
  PlanOptions options;
  options.order = OrderKind::kSequential;
  options.global_batch_size = 2;
  for (const bool shared : {true, false}) {
    options.share_prefixes = shared;
    const MicroBatch pieces = Planner(store, options).plan(0).ranks[0][0];
    const BatchSizes sizes = sizes_of(flatten(store, pieces, {}));
    EXPECT_EQ(sizes_of(pieces, Strategy::kBalanced, store), sizes);
    EXPECT_EQ(sizes.num_sequences, 5) << "with the dummy sequence";
    const std::int64_t num_pads = sizes.num_rows - (shared ? 49 + 21 + 31 + 8 + 2 + 71 : 239);
    EXPECT_EQ(sizes.num_keys, shared ? 70 + 80 + 10 + 79 + num_pads : 0);
  }
}

TEST(RehearsalPlan, HasTheLargestNumberOfKeys) {
  const test::GroupStore store(GroupKind::kPairs, test::draw_groups(1, 60, 300, GroupKind::kPairs));
  PlanOptions options;
  options.strategy = Strategy::kBalanced;
  options.global_batch_size = 6;
  options.max_tokens_per_micro_batch = 1024;
  options.share_prefixes = true;
  const Planner planner(store, options);
  const RehearsalPlan plan = plan_rehearsals(planner, store, 0, planner.num_steps(1), kSizes);
  std::int64_t largest = 0;
  for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
    const StepPlan step_plan = planner.plan(step);
    for (const MicroBatch& pieces : step_plan.ranks[0]) {
      largest = std::max(largest, sizes_of(flatten(store, pieces, {})).num_keys);
    }
  }
  EXPECT_GT(largest, 1024);
  EXPECT_EQ(plan.largest_num_keys, largest);
}

TEST_F(RehearsalTest, IsEmptyWhenNoStepIsLeft) {
  const Planner planner = make_planner(1);
  EXPECT_TRUE(plan_rehearsals(planner, store_, 5, 5, kSizes).rehearsals.empty());
}

// The groups have one rank each, with any number of groups.
TEST_F(RehearsalTest, GradientsInPlaceAddUpSeveralMicroBatchesByOtherProducts) {
  for (const int num_ranks : {1, 2}) {
    const Planner planner = make_planner(num_ranks);
    const auto accumulates = [&](const SizeOptions& sizes) {
      return std::ranges::any_of(
          plan_rehearsals(planner, store_, 0, planner.num_steps(1), sizes).rehearsals,
          &Rehearsal::accumulated);
    };
    EXPECT_TRUE(accumulates(kInPlace));
    EXPECT_FALSE(accumulates(kSizes));
  }
}

TEST(SizeKeys, KnowTheChunksOfTheHead) {
  const test::MemoryStore store = make_store(20, 1200);
  MicroBatch pieces;
  for (const std::int64_t e : {1, 2, 3}) {
    pieces.push_back({.example = e, .length = store.lengths()[static_cast<std::size_t>(e)]});
  }
  const PackedBatch batch = flatten(store, pieces, {});
  const auto has = [](const std::set<SizeKey>& keys, SizeKey::What what) {
    return std::ranges::any_of(keys, [&](const SizeKey& key) { return key.what == what; });
  };
  EXPECT_FALSE(has(size_keys(sizes_of(batch), false, kSizes), SizeKey::What::kHeadChunk));
  constexpr SizeOptions kHuge{.vocab_size = 4 << 20, .hidden_size = 16};  // 256 rows a chunk
  EXPECT_TRUE(has(size_keys(sizes_of(batch), false, kHuge), SizeKey::What::kHeadChunk));
  EXPECT_TRUE(has(size_keys(sizes_of(batch), false, kHuge), SizeKey::What::kLastHeadChunk));
}

// A small decoder alone on the CPU.
class Alone {
 public:
  Alone() {
    for (const ShardView& shard : model.parameters().shards()) shard.weight.fill_(0.01);
    model.parameters().weights_changed();
  }

  static DecoderConfig config() {
    DecoderConfig config;
    config.vocab_size = 100;
    config.hidden_size = 16;
    config.intermediate_size = 24;
    config.num_layers = 2;
    config.num_heads = config.num_kv_heads = 2;
    config.head_dim = 8;
    return config;
  }

  std::unique_ptr<Device> device = make_cpu_device({.num_threads = 1});
  std::unique_ptr<World> world = join_world();
  ShardedModel model{make_decoder(config(), {}),
                     *device,
                     {world->connect(Backend::kLocal), world->connect(Backend::kLocal)},
                     {}};
};

TEST_F(RehearsalTest, LeavesTheNextStepAsItWouldHaveBeen) {
  store_ = make_store(4, 20);
  const Planner planner = make_planner(1);
  const RehearsalPlan plan = plan_rehearsals(planner, store_, 0, planner.num_steps(1), kSizes);
  ASSERT_FALSE(plan.rehearsals.empty());
  const PackedBatch packed = flatten(store_, planner.plan(0).ranks[0][0], {});
  const auto train = [&](Alone& alone) {
    DeviceBatch batch = upload(packed, *alone.device);
    return alone.model.train({&batch, 1});
  };
  Alone rehearsed, fresh;
  rehearse(plan, Strategy::kBalanced, store_, rehearsed.model, *rehearsed.device, *rehearsed.world);
  EXPECT_TRUE(at::equal(train(rehearsed), train(fresh)));
  EXPECT_TRUE(at::equal(rehearsed.model.gradient(), fresh.model.gradient()));
  EXPECT_TRUE(at::equal(rehearsed.model.parameters().state().master,
                        fresh.model.parameters().state().master));
}

}  // namespace
}  // namespace packtrain
