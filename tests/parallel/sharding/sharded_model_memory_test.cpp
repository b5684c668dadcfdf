// Run with 1, 2 and 4 ranks over MPI: memory that runs out in a step.
#include <ATen/ops/count_nonzero.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "parallel/sharding/shard_groups.h"
#include "tests/parallel/sharding/sharded_model_harness.h"

namespace packtrain::test {
namespace {

// Memory runs out on a rank, or on all (-1), before every third action of the compute stream.
void run_out_everywhere(ShardedModel& model, std::span<DeviceBatch> batches, int rank) {
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

struct Layout {
  int zero_stage = 3;
  bool sums_locally = false;
};

TEST(ShardedModel, TheStepAfterAnOutOfMemoryAtAnyPointIsRight) {
  for (const ToyOptions& toy : models()) {
    for (int shard_size = 1; shard_size <= world->size(); shard_size *= 2) {
      for (const Layout& layout : {Layout{3, false}, Layout{2, false}, Layout{3, true}}) {
        Harness harness(toy,
                        {.zero_stage = layout.zero_stage,
                         .gather_slots = 2,
                         .sums_locally = layout.sums_locally,
                         .reduce = at::kBFloat16},
                        0, shard_size);
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
              << "stage " << layout.zero_stage << ", local sums " << layout.sums_locally << ", "
              << shard_size << " share, rank " << rank;
          EXPECT_EQ(gaps_of(harness.model()).count_nonzero().item<std::int64_t>(), 0);
        }
      }
    }
  }
}

// Runs as another block does, until the memory is exhausted.
class ExhaustedBlock final : public Block {
 public:
  explicit ExhaustedBlock(std::unique_ptr<Block> block) : block_(std::move(block)) {}
  const std::string& name() const override { return block_->name(); }
  const std::vector<ParameterSpec>& parameters() const override { return block_->parameters(); }
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override {
    return block_->forward(parameters, context, x);
  }
  at::Tensor backward(std::span<const Parameter> /*parameters*/, const BlockContext& /*context*/,
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
  ShardedModel model(std::move(blocks), *device,
                     connect_shard_groups(make_process_mesh(*world, 1), connect, connect), {});
  std::vector<DeviceBatch> batches = {toy_batch(0, 0, 8)};
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
}  // namespace packtrain::test
