// Models of one process with different options of their operators.
#include <gtest/gtest.h>

#include <utility>

#include "parallel/sharding/shard_groups.h"
#include "tests/parallel/sharding/sharded_model_harness.h"

namespace packtrain::test {
namespace {

// Notes the options that the context of each forward has.
class NotingBlock final : public Block {
 public:
  NotingBlock(std::unique_ptr<Block> block, std::vector<std::int64_t>& noted)
      : block_(std::move(block)), noted_(noted) {}
  const std::string& name() const override { return block_->name(); }
  const std::vector<ParameterSpec>& parameters() const override { return block_->parameters(); }
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override {
    noted_.push_back(context.options.min_planned_rows);
    return block_->forward(parameters, context, x);
  }
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const override {
    return block_->backward(parameters, context, std::move(tape), grad_output);
  }

 private:
  std::unique_ptr<Block> block_;
  std::vector<std::int64_t>& noted_;
};

struct NotingModel {
  explicit NotingModel(Device& device) {
    auto blocks = make_toy_blocks({});
    blocks[1] = std::make_unique<NotingBlock>(std::move(blocks[1]), noted);
    const Connect connect = [] { return world->connect(Backend::kLocal); };
    model = std::make_unique<ShardedModel>(
        std::move(blocks), device,
        connect_shard_groups(make_process_mesh(*world, 1), connect, connect), ShardingOptions{});
  }
  void train() {
    std::vector<DeviceBatch> batches = {toy_batch(0, 0, 8)};
    model->train(batches);
    model->compute().synchronize();
  }

  std::vector<std::int64_t> noted;
  std::unique_ptr<ShardedModel> model;
};

TEST(OperatorOptions, OfAModelReachItsBlocksAlone) {
  if (world->size() > 1) return;  // the local backend has one rank
  const auto device = make_cpu_device({});
  NotingModel first(*device);
  NotingModel second(*device);
  first.model->operator_options().min_planned_rows = 128;
  first.train();
  second.train();
  first.model->operator_options().min_planned_rows = 256;
  first.train();
  EXPECT_EQ(first.noted, (std::vector<std::int64_t>{128, 256}));
  EXPECT_EQ(second.noted, (std::vector<std::int64_t>{0}));
}

}  // namespace
}  // namespace packtrain::test
