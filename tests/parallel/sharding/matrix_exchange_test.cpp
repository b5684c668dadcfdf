// Run with 1, 2 and 4 ranks over MPI: each matrix of a sharded buffer as a whole on one rank.
#include "parallel/sharding/matrix_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "framework/core/random.h"
#include "tests/parallel/sharding/sharded_model_harness.h"

namespace packtrain::test {
namespace {

constexpr int kHidden = 72;

bool is_matrix(const ParameterSpec& spec) {
  return spec.shape.size() == 2;
}

// The value of an element before the exchange, which any rank can compute.
float value_of(const std::string& parameter, std::int64_t element) {
  return static_cast<float>(
      CounterRandom(3, parameter.c_str()).normal(static_cast<std::uint64_t>(element)));
}

// What the work does to a matrix: no element has its result without all others.
float result_of(const std::string& parameter, std::int64_t element) {
  double sum = 0;
  for (std::int64_t e = 0; e < kHidden * kHidden; ++e) sum += value_of(parameter, e);
  return value_of(parameter, element) + static_cast<float>(sum);
}

void add_sums(const at::Tensor& matrices) {
  matrices.add_(matrices.to(at::kDouble).sum({1, 2}, /*keepdim=*/true));
}

class ExchangeHarness {
 public:
  ExchangeHarness(const ToyOptions& toy, int shard_size, int zero_stage = 3)
      : harness_(toy, {.zero_stage = zero_stage}, /*delay_us=*/200, shard_size) {}

  ShardedModel& model() { return harness_.model(); }

  // A buffer like the master with the value of each owned element.
  at::Tensor filled() {
    const at::Tensor& master = model().parameters().state().master;
    at::Tensor flat = at::zeros({master.numel()}, master.options());
    for_each_element(flat, [](const ShardView& shard, std::int64_t i, float& to) {
      to = value_of(shard.parameter, shard.begin + i);
    });
    return flat;
  }

  // Elements that are not as they should be after the exchange.
  std::int64_t num_wrong(const at::Tensor& flat) {
    std::int64_t wrong = 0;
    std::map<std::string, std::vector<float>> wanted;
    for_each_element(flat, [&](const ShardView& shard, std::int64_t i, float& found) {
      const std::int64_t element = shard.begin + i;
      if (shard.shape.size() != 2) {
        wrong += static_cast<int>(found != value_of(shard.parameter, element));
        return;
      }
      const float offset = offset_of(shard.parameter);
      wrong +=
          static_cast<int>(std::abs(found - value_of(shard.parameter, element) - offset) > 1e-3F);
    });
    return wrong;
  }

 private:
  template <typename Use>
  void for_each_element(const at::Tensor& flat, const Use& use) {
    const at::Tensor& master = model().parameters().state().master;
    for (const ShardView& shard : model().parameters().shards()) {
      if (!shard.trainable) continue;
      const std::int64_t begin = shard.weight.storage_offset() - master.storage_offset();
      auto* data = flat.mutable_data_ptr<float>() + begin;
      for (std::int64_t i = 0; i < shard.numel; ++i) use(shard, i, data[i]);
    }
  }

  float offset_of(const std::string& parameter) {
    const auto [found, is_new] = offsets_.try_emplace(parameter, 0.0F);
    if (is_new) found->second = result_of(parameter, 0) - value_of(parameter, 0);
    return found->second;
  }

  Harness harness_;
  std::map<std::string, float> offsets_;
};

std::vector<int> shard_sizes() {
  std::vector<int> sizes;
  for (int size = 1; size <= world->size(); size *= 2) sizes.push_back(size);
  return sizes;
}

TEST(MatrixExchange, TheOwnerSeesWholeMatricesAndEachRankGetsItsElementsBack) {
  const at::NoGradGuard no_grad;
  for (const int layers : {1, 7}) {
    for (const int shard_size : shard_sizes()) {
      ExchangeHarness harness({.num_layers = layers, .hidden = kHidden, .bias = true}, shard_size);
      const auto exchange =
          harness.model().parameters().make_matrix_exchange(is_matrix, at::kFloat);
      for (int repeat = 0; repeat < 3; ++repeat) {
        const at::Tensor flat = harness.filled();
        exchange->run(flat, add_sums);
        exchange->wait_for_all();
        harness.model().compute().synchronize();
        EXPECT_EQ(harness.num_wrong(flat), 0)
            << layers << " layers, " << shard_size << " ranks share, repeat " << repeat;
      }
    }
  }
}

TEST(MatrixExchange, AUnitMayBeReadWhenTheExchangeOfItIsWaitedFor) {
  const at::NoGradGuard no_grad;
  ExchangeHarness harness({.num_layers = 6, .hidden = kHidden}, world->size());
  const auto exchange = harness.model().parameters().make_matrix_exchange(is_matrix, at::kFloat);
  const at::Tensor flat = harness.filled();
  at::Tensor seen = at::zeros({flat.numel()}, flat.options());
  exchange->run(flat, add_sums);
  for (const OptimizerRange& range : harness.model().parameters().optimizer_ranges()) {
    exchange->wait_for(range.unit);
    harness.model().compute().run([&](StreamHandle) {
      seen.narrow(0, range.begin, range.numel).copy_(flat.narrow(0, range.begin, range.numel));
    });
  }
  harness.model().compute().synchronize();
  EXPECT_EQ(harness.num_wrong(seen), 0);
}

TEST(MatrixExchange, FrozenMatricesTakeNoPart) {
  const at::NoGradGuard no_grad;
  ExchangeHarness harness({.num_layers = 4, .hidden = kHidden, .frozen_layers = {0, 2}},
                          world->size());
  const auto exchange = harness.model().parameters().make_matrix_exchange(is_matrix, at::kFloat);
  const at::Tensor flat = harness.filled();
  int num_matrices = 0;
  exchange->run(flat, [&](const at::Tensor& matrices) {
    num_matrices += static_cast<int>(matrices.size(0));
    add_sums(matrices);
  });
  exchange->wait_for_all();
  harness.model().compute().synchronize();
  EXPECT_EQ(harness.num_wrong(flat), 0);
  EXPECT_LE(num_matrices, 2);
}

TEST(MatrixExchange, CollectivesOfALaterStepMayFollow) {
  const at::NoGradGuard no_grad;
  const ToyOptions toy{.num_layers = 4, .hidden = 8};
  const Reference reference = run_by_hand(toy, world->size(), 1);
  Harness harness(toy, {.gather_slots = 2}, /*delay_us=*/200);
  const auto exchange = harness.model().parameters().make_matrix_exchange(is_matrix, at::kFloat);
  const Schedule schedule =
      make_schedule(harness.model().units(), harness.model().slots(), {1, true});
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_TRUE(is_right(harness.train(schedule, 1, reference), reference));
    const at::Tensor flat = harness.model().gradient().clone();
    exchange->run(flat, add_sums);
    exchange->wait_for_all();
  }
}

}  // namespace
}  // namespace packtrain::test
