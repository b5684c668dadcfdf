// Requests and their counts stay exact for up to 2^24 ranks.
#include "training/steps/step_outcome.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace packtrain {
namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

class StepOutcomeTest : public ::testing::Test {
 protected:
  // What a rank reads after the all-reduce has left `requests` and `details`.
  StepOutcome::Values read_after(const RequestCounts& requests, std::vector<float> details = {}) {
    std::vector<float> sums = {2.5F, 9.0F, requests.stop, requests.save, requests.out_of_memory};
    sums.insert(sums.end(), details.begin(), details.end());
    StepOutcome outcome(*device_, std::ssize(details));
    outcome.receive(step_scalars(at::tensor(sums), 1.0).outcome, *compute_);
    return outcome.read();
  }

  std::unique_ptr<Device> device_ = make_cpu_device({});
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::kCompute);
};

TEST_F(StepOutcomeTest, KeepsEachCountOfRanksApartFromTheOthers) {
  const std::vector<std::int64_t> counts = {0,    1,    2,    2047, 2048,           2049,
                                            4095, 4096, 4097, 8192, kMostRanks - 1, kMostRanks};
  for (const std::int64_t stops : counts) {
    for (const std::int64_t saves : counts) {
      for (const std::int64_t out_of_memory : counts) {
        const StepOutcome::Values values =
            read_after({.stop = static_cast<float>(stops),
                        .save = static_cast<float>(saves),
                        .out_of_memory = static_cast<float>(out_of_memory)});
        EXPECT_EQ(values.requests.stop, stops > 0);
        EXPECT_EQ(values.requests.save, saves > 0);
        EXPECT_EQ(values.requests.out_of_memory, out_of_memory > 0);
        EXPECT_EQ(values.num_ranks_out_of_memory, out_of_memory);
        EXPECT_EQ(values.loss, 2.5);
        EXPECT_EQ(values.grad_norm, 3.0);
        EXPECT_TRUE(values.applied);
      }
    }
  }
}

TEST_F(StepOutcomeTest, PassesDetailsOnInTheirOrder) {
  const StepOutcome::Values values = read_after({.stop = 3}, {7.0F, 8.0F});
  EXPECT_EQ(values.details, (std::vector<double>{7.0, 8.0}));
  EXPECT_TRUE(values.requests.stop);
}

TEST(StepRequests, CountARankOnceForEachRequest) {
  for (int bits = 0; bits < 8; ++bits) {
    const StepRequests asked{
        .stop = (bits & 1) != 0, .save = (bits & 2) != 0, .out_of_memory = (bits & 4) != 0};
    const RequestCounts counts = asked.counts();
    EXPECT_EQ(counts.stop, asked.stop ? 1.0F : 0.0F);
    EXPECT_EQ(counts.save, asked.save ? 1.0F : 0.0F);
    EXPECT_EQ(counts.out_of_memory, asked.out_of_memory ? 1.0F : 0.0F);
  }
}

// Collectives add in rings or trees. The sum is exact in both orders.
TEST(RequestCounts, AreExactWhenTheMostRanksAskForTheSame) {
  float ring = 0;
  for (std::int64_t rank = 0; rank < kMostRanks; ++rank) {
    ring += 1;
    ASSERT_EQ(static_cast<std::int64_t>(ring), rank + 1);
  }
  float tree = 1;
  for (std::int64_t ranks = 1; ranks < kMostRanks; ranks *= 2) tree += tree;
  EXPECT_EQ(static_cast<std::int64_t>(tree), kMostRanks);
}

}  // namespace
}  // namespace packtrain
