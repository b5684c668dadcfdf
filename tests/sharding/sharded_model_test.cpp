// Run with 1, 2 and 4 ranks over MPI: the sharded model against its own blocks run by hand.
#include "parallel/sharding/sharded_model.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/support/error.h"
#include "framework/support/random.h"
#include "models/batch.h"
#include "parallel/sharding/shard_groups.h"
#include "parallel/world.h"
#include "tests/sharding/toy_blocks.h"

namespace packtrain::testing {
namespace {

World* world = nullptr;

constexpr int kRows = 6;

at::Tensor random_tensor(const std::string& name, std::vector<std::int64_t> shape, double scale) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  const CounterRandom random(7, name);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data_ptr<float>()[i] = static_cast<float>(scale * random.normal(i));
  }
  return tensor;
}

DeviceBatch toy_batch(int rank, int micro_batch, int hidden) {
  DeviceBatch batch;
  const std::string name = "batch" + std::to_string(rank) + "." + std::to_string(micro_batch);
  batch.loss_weight = random_tensor(name, {kRows * hidden}, 1.0);
  return batch;
}

// Loss and gradients of all ranks' micro-batches together, block by block, without sharding.
struct Reference {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

Reference run_by_hand(const ToyOptions& model, int num_ranks, int num_micro_batches) {
  const auto blocks = make_toy_blocks(model);
  Reference result;
  std::map<std::string, at::Tensor> weights;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      weights[spec.name] = random_tensor(spec.name, spec.shape, 0.5);
      if (spec.trainable) result.gradients[spec.name] = at::zeros(spec.shape, at::kFloat);
    }
  }
  const auto parameters = [&](const Block& block) {
    std::vector<Parameter> list;
    for (const ParameterSpec& spec : block.parameters()) {
      list.push_back(
          {weights[spec.name], spec.trainable ? result.gradients[spec.name] : at::Tensor(), true});
    }
    return list;
  };
  for (int r = 0; r < num_ranks; ++r) {
    for (int m = 0; m < num_micro_batches; ++m) {
      const DeviceBatch batch = toy_batch(r, m, model.hidden);
      at::Tensor x;
      std::vector<std::unique_ptr<Tape>> tapes;
      for (const auto& block : blocks) {
        BlockOutput output = block->forward(parameters(*block), batch, x, true);
        x = output.value;
        tapes.push_back(std::move(output.tape));
      }
      result.loss += x.item<double>();
      x = at::Tensor();
      for (std::size_t b = blocks.size(); b-- > 0;) {
        x = blocks[b]->backward(parameters(*blocks[b]), batch, std::move(tapes[b]), x);
      }
    }
  }
  return result;
}

struct Outcome {
  double loss = 0;  // of all ranks
  bool gradients_right = true;
};

class Harness {
 public:
  Harness(const ToyOptions& toy, const ShardingOptions& options, std::int64_t delay_us,
          int shard_size = world->size())
      : toy_(toy),
        relative_(options.reduce == at::kFloat ? 1e-4 : 4e-2),
        absolute_(options.reduce == at::kFloat ? 1e-5 : 4e-2),
        device_(make_cpu_device({.stream_delay_us = delay_us, .delay_seed = 3, .num_threads = 1})) {
    const Connect connect = [] {
      return world->connect(world->size() > 1 ? Backend::kMpi : Backend::kLocal);
    };
    model_ = std::make_unique<ShardedModel>(
        make_toy_blocks(toy), *device_, connect_shard_groups(shard_size, *world, connect, connect),
        options);
    for (const ShardView& shard : model_->shards()) {
      const at::Tensor whole = random_tensor(shard.parameter, shard.shape, 0.5).view({-1});
      shard.weight.copy_(whole.narrow(0, shard.begin, shard.numel));
    }
    model_->weights_changed();
  }

  ShardedModel& model() { return *model_; }

  Outcome train(const Schedule& schedule, int num_micro_batches, const Reference& reference) {
    std::vector<DeviceBatch> batches;
    for (int m = 0; m < num_micro_batches; ++m)
      batches.push_back(toy_batch(world->rank(), m, toy_.hidden));
    double loss = model_->run(schedule, batches).item<double>();
    bool right = true;
    for (const ShardView& shard : model_->shards()) {
      if (!shard.trainable) continue;
      const std::int64_t offset =
          shard.weight.storage_offset() - model_->state().master.storage_offset();
      const at::Tensor got = model_->gradient().narrow(0, offset, shard.numel).to(at::kFloat);
      const at::Tensor want =
          reference.gradients.at(shard.parameter).view({-1}).narrow(0, shard.begin, shard.numel);
      right = right && at::allclose(got, want, relative_, absolute_);
    }
    const double squares = model_->squared_norm_partials().sum().item<double>();
    const double norm = model_->gradient().to(at::kFloat).norm().item<double>();
    right = right && std::abs(squares - norm * norm) <= 1e-4 * squares;
    Outcome outcome{loss, right};
    double wrong = right ? 0 : 1;
    world->control().all_reduce(&outcome.loss, 1, DataType::kFloat64, ReduceOp::kSum, nullptr);
    world->control().all_reduce(&wrong, 1, DataType::kFloat64, ReduceOp::kMax, nullptr);
    outcome.gradients_right = wrong == 0;
    return outcome;
  }

 private:
  ToyOptions toy_;
  double relative_;
  double absolute_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ShardedModel> model_;
};

bool is_right(const Outcome& outcome, const Reference& reference) {
  return std::abs(outcome.loss - reference.loss) <= 1e-4 * std::abs(reference.loss) + 1e-5 &&
         outcome.gradients_right;
}

const std::vector<ToyOptions>& models() {
  static const std::vector<ToyOptions> list = {
      {.num_layers = 5},
      {.num_layers = 5, .hidden = 8, .tied = true},
      {.num_layers = 4, .hidden = 8, .tied = false, .frozen_layers = {0, 2}, .frozen_first = true}};
  return list;
}

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
        EXPECT_EQ(harness.model().num_replicas(), world->size() / shard_size);
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

// All of the gradient but the parameters' places.
at::Tensor gaps_of(ShardedModel& model) {
  const at::Tensor gaps = model.gradient().clone();
  for (const ShardView& shard : model.shards()) {
    if (!shard.trainable) continue;
    const std::int64_t offset = shard.weight.storage_offset();
    gaps.narrow(0, offset, shard.numel).zero_();
  }
  return gaps;
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
  const std::vector<DeviceBatch> batches = {toy_batch(world->rank(), 0, toy.hidden)};
  model.train(batches);
  const std::int64_t num_parts = world->size() > 1 ? 2 : 1;
  EXPECT_EQ(model.squared_norm_partials().numel(), num_parts);
  EXPECT_EQ(model.squared_norm_partials().numel(), 1);  // again: of what lies there now
  model.train(batches);
  model.evaluate(batches);
  EXPECT_EQ(model.squared_norm_partials().numel(), 1);
}

TEST(ShardedModel, TellsOfEachForwardAndBackwardBeforeItIsDone) {
  const ToyOptions toy{.num_layers = 3};
  Harness harness(toy, {}, 0);
  ShardedModel& model = harness.model();
  const std::vector<DeviceBatch> batches(2, toy_batch(world->rank(), 0, toy.hidden));
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

// Memory runs out on a rank, or on all (-1), before every third action of the compute stream.
void run_out_everywhere(ShardedModel& model, std::span<const DeviceBatch> batches, int rank) {
  int num_actions = 0;
  model.before_compute([&](const Action&) { ++num_actions; });
  model.train(batches);
  const bool strikes = rank < 0 || rank == world->rank();
  for (int at = 0; at < num_actions; at += 3) {
    int action = 0;
    model.before_compute([&](const Action&) {
      TORCH_CHECK_WITH(OutOfMemoryError, !strikes || action++ != at, "here\nand the way there");
    });
    const auto [loss, out_of_memory] = model.try_train(batches);
    EXPECT_EQ(out_of_memory.has_value(), strikes);
    EXPECT_EQ(loss.defined(), !strikes);
    if (!strikes) continue;
    EXPECT_TRUE(out_of_memory->message().ends_with(": here"));
  }
  model.before_compute({});
  if (strikes) {
    model.join_step(batches.size());
  } else {
    model.train(batches);
  }
}

TEST(ShardedModel, WhereverMemoryRunsOutAllGetThroughTheStepAndTheNextOneIsRight) {
  for (const ToyOptions& toy : models()) {
    for (int shard_size = 1; shard_size <= world->size(); shard_size *= 2) {
      for (const int stage : {3, 2}) {
        Harness harness(toy, {.zero_stage = stage, .gather_slots = 2, .reduce = at::kBFloat16}, 0,
                        shard_size);
        constexpr int kMicroBatches = 2;
        std::vector<DeviceBatch> batches;
        for (int m = 0; m < kMicroBatches; ++m)
          batches.push_back(toy_batch(world->rank(), m, toy.hidden));
        const Reference reference = run_by_hand(toy, world->size(), kMicroBatches);
        const Schedule schedule =
            make_schedule(harness.model().units(), harness.model().slots(), {kMicroBatches, true});
        for (const int rank : {-1, world->size() - 1}) {
          run_out_everywhere(harness.model(), batches, rank);
          EXPECT_TRUE(is_right(harness.train(schedule, kMicroBatches, reference), reference))
              << "stage " << stage << ", " << shard_size << " share, rank " << rank;
          EXPECT_EQ(gaps_of(harness.model()).count_nonzero().item<std::int64_t>(), 0);
        }
      }
    }
  }
}

TEST(ShardedModel, EvaluationLeavesTheGradientAlone) {
  const ToyOptions toy{.num_layers = 3};
  Harness harness(toy, {.reduce = at::kBFloat16}, 0);
  ShardedModel& model = harness.model();
  const std::vector<DeviceBatch> batches = {toy_batch(world->rank(), 0, toy.hidden),
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
  Harness trained(all, {}, 0);
  Harness frozen(some, {}, 0);
  EXPECT_LT(frozen.model().gradient().numel(), trained.model().gradient().numel());
  EXPECT_LT(frozen.model().state().exp_avg.numel(), trained.model().state().exp_avg.numel());
}

// Whether a schedule gives wrong results within `attempts` runs.
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

// Runs as another block does, until the memory is exhausted.
class ExhaustedBlock final : public Block {
 public:
  explicit ExhaustedBlock(std::unique_ptr<Block> block) : block_(std::move(block)) {}
  const std::string& name() const override { return block_->name(); }
  const std::vector<ParameterSpec>& parameters() const override { return block_->parameters(); }
  BlockOutput forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      const at::Tensor& x, bool training) const override {
    return block_->forward(parameters, batch, x, training);
  }
  at::Tensor backward(std::span<const Parameter> /*parameters*/, const DeviceBatch& /*batch*/,
                      std::unique_ptr<Tape> /*tape*/,
                      const at::Tensor& /*grad_output*/) const override {
    C10_THROW_ERROR(OutOfMemoryError, "tried to allocate 20 GiB\nand much more of a text");
  }

 private:
  std::unique_ptr<Block> block_;
};

TEST(ShardedModel, NamesBlockAndRowsWhenMemoryRunsOut) {
  if (world->size() > 1) return;  // the others would wait for the failed rank's reduction
  auto blocks = make_toy_blocks({});
  blocks[2] = std::make_unique<ExhaustedBlock>(std::move(blocks[2]));
  const std::string name = blocks[2]->name();
  const auto device = make_cpu_device({});
  const Connect connect = [] { return world->connect(Backend::kLocal); };
  ShardedModel model(std::move(blocks), *device, connect_shard_groups(1, *world, connect, connect),
                     {});
  const std::vector<DeviceBatch> batches = {toy_batch(0, 0, 8)};
  try {
    model.train(batches);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kDevice);
    EXPECT_NE(error.message().find("the backward of " + name), std::string::npos);
    EXPECT_NE(error.message().find("tried to allocate 20 GiB"), std::string::npos);
    EXPECT_EQ(error.message().find("much more"), std::string::npos);
    EXPECT_NE(error.advice().find("memory.recompute"), std::string::npos);
  }
}

}  // namespace
}  // namespace packtrain::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto world = packtrain::join_world();
  packtrain::testing::world = world.get();
  const at::NoGradGuard no_grad;
  return RUN_ALL_TESTS();
}
