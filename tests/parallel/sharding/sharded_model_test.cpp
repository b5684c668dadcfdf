// Run with 1, 2 and 4 ranks over MPI: the sharded model against its own blocks run by hand.
#include "parallel/sharding/sharded_model.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parallel/sharding/sharded_model_harness.h"

namespace packtrain::test {
namespace {

TEST(ShardedModel, EqualsTheBlocksRunByHandAtAnyStageAndAnyNumberOfSlots) {
  for (const ToyOptions& toy : models()) {
    for (const int micro_batches : {1, 3}) {
      const Reference reference = run_by_hand(toy, world->size(), micro_batches);
      for (const int stage : {3, 2}) {
        for (const int slots : {1, 2, 3}) {
          Harness harness(toy, {.zero_stage = stage, .gather_slots = slots, .poison_slots = true},
                          200);
          ShardedModel& model = harness.model();
          const Schedule schedule =
              make_schedule(model.units(), model.slots(), {micro_batches, true});
          for (int repeat = 0; repeat < 2; ++repeat) {
            EXPECT_TRUE(is_right(harness.train(schedule, micro_batches, reference), reference))
                << "stage " << stage << ", " << slots << " slots, " << micro_batches
                << " micro-batches";
          }
        }
      }
    }
  }
}

TEST(ShardedModel, ReplicasOfAnyNumberOfRanksHaveTheSumOverAllRanks) {
  for (const ToyOptions& toy : models()) {
    for (int shard_size = 1; shard_size <= world->size(); shard_size *= 2) {
      for (const bool resident : {true, false}) {
        Harness harness(toy,
                        {.gather_slots = 2, .resident_embeddings = resident, .poison_slots = true},
                        200, shard_size);
        const ProcessMesh mesh = harness.model().ranks().mesh();
        EXPECT_EQ(mesh.shard.size, shard_size);
        EXPECT_EQ(mesh.shard.rank, world->rank() % shard_size);
        EXPECT_EQ(mesh.replicate.size, world->size() / shard_size);
        EXPECT_EQ(mesh.data_parallel_size(), world->size());
        EXPECT_EQ(mesh.data_parallel_rank(), world->rank());
        for (const int micro_batches : {1, 3}) {
          const Reference reference = run_by_hand(toy, world->size(), micro_batches);
          const Schedule schedule = make_schedule(harness.model().units(), harness.model().slots(),
                                                  {micro_batches, true});
          for (int repeat = 0; repeat < 2; ++repeat) {
            EXPECT_TRUE(is_right(harness.train(schedule, micro_batches, reference), reference))
                << shard_size << " of " << world->size() << " ranks share, " << micro_batches
                << " micro-batches, embeddings resident " << resident;
          }
        }
      }
    }
  }
}

// Two tensors of different types, as an optimizer may declare.
const std::vector<OptimizerStateSpec> kState = {{.name = "first"},
                                                {.name = "second", .dtype = at::kBFloat16}};

std::vector<at::Tensor> state_of(const ShardView& shard) {
  std::vector<at::Tensor> tensors = {shard.weight};
  for (const OptimizerTensor& tensor : shard.optimizer) tensors.push_back(tensor.values);
  return tensors;
}

TEST(ShardedModel, AllReplicasHaveTheStateThatTheFirstWasGiven) {
  for (int shard_size = 1; shard_size <= world->size(); shard_size *= 2) {
    Harness harness(models().front(), {.optimizer_state = kState}, 0, shard_size);
    ShardedModel& model = harness.model();
    const bool is_first = world->rank() < shard_size;
    EXPECT_EQ(model.ranks().saves_shards(), is_first);
    float value = is_first ? 1.0F : -1.0F;
    for (const ShardView& shard : model.parameters().shards()) {
      for (const at::Tensor& tensor : state_of(shard)) tensor.fill_(is_first ? value++ : value);
    }
    model.parameters().broadcast_first_replica();
    value = 1.0F;
    for (const ShardView& shard : model.parameters().shards()) {
      for (const at::Tensor& tensor : state_of(shard)) {
        EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, value)))
            << shard.parameter << ", " << shard_size << " ranks share";
        ++value;
      }
    }
  }
}

TEST(ShardedModel, ReducesInBFloat16WithinItsRoundingAndSumsMicroBatchesInFloat32) {
  for (const ToyOptions& toy : models()) {
    Harness harness(toy, {.reduce = at::kBFloat16}, 0);
    ShardedModel& model = harness.model();
    for (const int micro_batches : {1, 3, 1, 2, 1}) {
      const Reference reference = run_by_hand(toy, world->size(), micro_batches);
      const Schedule schedule = make_schedule(model.units(), model.slots(), {micro_batches, true});
      EXPECT_TRUE(is_right(harness.train(schedule, micro_batches, reference), reference))
          << micro_batches << " micro-batches";
      EXPECT_EQ(model.gradient().scalar_type(), micro_batches == 1 ? at::kBFloat16 : at::kFloat);
      EXPECT_EQ(gaps_of(model).count_nonzero().item<std::int64_t>(), 0);
    }
  }
}

TEST(ShardedModel, SquaresMostOfTheGradientBeforeTheLastReductions) {
  const ToyOptions toy{.num_layers = 3};
  Harness harness(toy, {}, 0);
  ShardedModel& model = harness.model();
  std::vector<DeviceBatch> batches = {toy_batch(world->rank(), 0, toy.hidden)};
  model.train(batches);
  const std::int64_t num_parts = world->size() > 1 ? 2 : 1;
  EXPECT_EQ(model.squared_norm_partials().numel(), num_parts);
  EXPECT_EQ(model.squared_norm_partials().numel(), 1);  // again: of what lies there now
  model.train(batches);
  model.evaluate(batches);
  EXPECT_EQ(model.squared_norm_partials().numel(), 1);
}

TEST(ShardedModel, ReportsEachForwardAndBackwardBeforeItRuns) {
  const ToyOptions toy{.num_layers = 3};
  Harness harness(toy, {}, 0);
  ShardedModel& model = harness.model();
  std::vector<DeviceBatch> batches(2, toy_batch(world->rank(), 0, toy.hidden));
  std::vector<ActionKind> told;
  model.watch_compute([&](ActionKind kind) { told.push_back(kind); });
  model.train(batches);
  const std::size_t num_blocks = model.units().unit_of_block.size();
  std::vector<ActionKind> wanted;
  for (std::size_t m = 0; m < batches.size(); ++m) {
    wanted.insert(wanted.end(), num_blocks, ActionKind::kForward);
    wanted.insert(wanted.end(), num_blocks, ActionKind::kBackward);
  }
  EXPECT_EQ(told, wanted);
}

TEST(ShardedModel, EvaluationLeavesTheGradientAlone) {
  const ToyOptions toy{.num_layers = 3};
  Harness harness(toy, {.reduce = at::kBFloat16}, 0);
  ShardedModel& model = harness.model();
  std::vector<DeviceBatch> batches = {toy_batch(world->rank(), 0, toy.hidden),
                                      toy_batch(world->rank(), 1, toy.hidden)};
  model.train({batches.data(), 1});
  const at::Tensor before = model.gradient().clone();
  model.evaluate(batches);
  EXPECT_TRUE(model.gradient().equal(before));
}

TEST(ShardedModel, FrozenParametersTakeNoGradientMemory) {
  const ToyOptions all{.num_layers = 4, .hidden = 64};
  ToyOptions some = all;
  some.frozen_layers = {1, 2};
  Harness trained(all, {.optimizer_state = kState}, 0);
  Harness frozen(some, {.optimizer_state = kState}, 0);
  EXPECT_LT(frozen.model().gradient().numel(), trained.model().gradient().numel());
  EXPECT_LT(frozen.model().parameters().state().optimizer[0].values.numel(),
            trained.model().parameters().state().optimizer[0].values.numel());
}

TEST(ShardedModel, KeepsAndGathersWeightsInTheBytesOfTheirEncoding) {
  const ToyOptions wide{.num_layers = 4, .hidden = 64, .frozen_layers = {0, 1, 2, 3}};
  ToyOptions narrow = wide;
  narrow.layer_encoding = {DataType::kBFloat16};
  Harness float32(wide, {}, 0);
  Harness bfloat16(narrow, {}, 0);
  EXPECT_LT(bfloat16.model().parameters().communication_bytes(),
            float32.model().parameters().communication_bytes());
}

// True where a schedule gives wrong results within `attempts` runs.
bool goes_wrong(Harness& harness, const Schedule& schedule, const Reference& reference,
                int attempts) {
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (!is_right(harness.train(schedule, 1, reference), reference)) return true;
  }
  return false;
}

// Removes each wait of the compute stream for a gather in turn; delays make the race real. Some
// races are won in all but a few runs, fewer still on busy cores: then longer delays are tried.
TEST(ShardedModel, CatchesARemovedWait) {
  if (world->size() == 1) return;  // one rank gathers nothing: there is no wait to remove
  const ToyOptions toy{.num_layers = 5};
  const Reference reference = run_by_hand(toy, world->size(), 1);
  Harness harness(toy, {.gather_slots = 2, .poison_slots = true}, 3000);
  Harness slower(toy, {.gather_slots = 2, .poison_slots = true}, 25000);
  ShardedModel& model = harness.model();
  const Schedule schedule = make_schedule(model.units(), model.slots(), {1, true});
  int num_damaged = 0;
  for (std::size_t a = 0; a < schedule.size(); ++a) {
    const int waited = schedule[a].waits.empty() ? -1 : schedule[a].waits.front();
    const bool for_gather =
        waited >= 0 && waited < model.slots().num_weight_slots;  // a ready event
    if (schedule[a].stream() != ActionStream::kCompute || !for_gather) continue;
    Schedule damaged = schedule;
    damaged[a].waits.clear();
    ++num_damaged;
    const bool caught =
        goes_wrong(harness, damaged, reference, 150) || goes_wrong(slower, damaged, reference, 150);
    EXPECT_TRUE(caught) << "nobody noticed that action " << a << " no longer waits";
    EXPECT_TRUE(is_right(harness.train(schedule, 1, reference), reference)) << "after action " << a;
  }
  EXPECT_GE(num_damaged, 6);
}

}  // namespace
}  // namespace packtrain::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto world = packtrain::join_world();
  packtrain::test::world = world.get();
  const at::NoGradGuard no_grad;
  return RUN_ALL_TESTS();
}
