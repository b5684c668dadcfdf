#include "training/plan/cost_measurement.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "models/decoder/decoder.h"
#include "parallel/communicators/local/local_world.h"
#include "tests/samplers/memory_store.h"
#include "tests/training/small_decoder.h"

namespace packtrain {
namespace {

constexpr std::int32_t kRow = 32;

test::MemoryStore make_store() {
  std::vector<test::MemoryExample> examples;
  for (std::int32_t i = 0; i < 120; ++i) {
    const auto length = static_cast<std::size_t>(3 + i * 7 % 50);
    examples.push_back({std::vector<std::int32_t>(length, i % 500),
                        std::vector<std::uint8_t>(length, std::uint8_t{1})});
  }
  return test::MemoryStore(std::move(examples));
}

// Rows of examples, each of which attention takes as one sequence.
class JoinedRows : public ::testing::Test {
 protected:
  JoinedRows() {
    config_.data.max_length = kRow;
    config_.batch.strategy = Strategy::kFixedLength;
    config_.batch.cross_example_attention = true;
    config_.batch.global_batch_size = 8;
    config_.batch.max_tokens_per_micro_batch = 6 * kRow;
    config_.batch.cost = CostSource::kMeasured;
    config_.run.max_steps = 10;
    plan_ = std::make_unique<RunPlan>(config_, small_decoder(), store_, std::nullopt, *device_,
                                      *world_);
  }

  const at::NoGradGuard no_grad_;
  Config config_;
  const test::MemoryStore store_ = make_store();
  std::unique_ptr<Device> device_ = make_cpu_device({.num_threads = 1});
  std::unique_ptr<World> world_ = make_local_world();
  std::unique_ptr<RunPlan> plan_;
};

TEST_F(JoinedRows, AreDrawnWholeAndWithinTheBudget) {
  const auto samples = sample_micro_batches(*plan_, 0);
  ASSERT_EQ(samples.size(), 5);
  std::set<std::int64_t> sizes;
  bool has_joined = false;
  for (const MicroBatch& pieces : samples) {
    ASSERT_FALSE(pieces.empty());
    EXPECT_FALSE(pieces.front().joined);
    std::int64_t num_tokens = 0;
    for_each_segment(pieces, [&](std::span<const Piece> row, const AttentionSegment& segment) {
      EXPECT_EQ(segment.rows.size(), kRow);  // as every row that is trained
      has_joined = has_joined || row.size() > 1;
      num_tokens += segment.rows.size();
    });
    EXPECT_LE(num_tokens, 6 * kRow);
    sizes.insert(num_tokens);
  }
  EXPECT_TRUE(has_joined);
  EXPECT_GT(sizes.size(), 1);  // else a fixed cost could not be distinguished from that of a token
}

TEST_F(JoinedRows, AreMeasuredToACostThatPlansCanUse) {
  ShardedModel model(make_decoder(small_decoder(), {}), *device_,
                     {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)}, {});
  const MeasuredCost measured = measure_cost(*plan_, store_, 0, model, *device_, *world_);
  EXPECT_EQ(measured.speeds, std::vector<double>{1.0});
  const CostModel& cost = measured.cost;
  EXPECT_GE(cost.linear, 0.0);
  EXPECT_GE(cost.quadratic, 0.0);
  EXPECT_GE(cost.constant, 0.0);
  EXPECT_GT(cost.linear + cost.quadratic, 0.0);
  plan_->set_measured_cost(cost, measured.speeds);
  EXPECT_FALSE(plan_->wants_measured_cost());
  EXPECT_EQ(plan_->planner().plan(0).num_tokens, 8 * kRow);
}

}  // namespace
}  // namespace packtrain
