// The self-test at start and debug.check_gathers, on ranks of which one gets wrong values.
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "models/block/batch.h"
#include "parallel/communicators/forwarding_communicator.h"
#include "parallel/sharding/sharded_model.h"
#include "tests/parallel/communicators/world_fixture.h"
#include "tests/parallel/sharding/toy_blocks.h"

namespace packtrain::test {
namespace {

constexpr int kDamagedRank = 1;
constexpr int kRows = 3;
constexpr int kHidden = 32;

enum class Damage { kNone, kGather, kReduction, kReplicas };

// Passes everything on, but on one rank the n-th result has one wrong element.
class DamagingCommunicator final : public ForwardingCommunicator {
 public:
  DamagingCommunicator(Damage damage, int call)
      : ForwardingCommunicator(test_world().connect(backend())), damage_(damage), call_(call) {}

  static Backend backend() { return test_world().size() > 1 ? Backend::kMpi : Backend::kLocal; }
  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override {
    ForwardingCommunicator::all_gather(send, receive, count, type, stream);
    ++num_calls;
    if (strikes(Damage::kGather)) static_cast<float*>(receive)[kElement] += 1;
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override {
    ForwardingCommunicator::reduce_scatter(send, receive, count, type, stream);
    ++num_calls;
    if (strikes(Damage::kReduction)) static_cast<float*>(receive)[kElement] += 1;
  }
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override {
    ForwardingCommunicator::all_reduce(buffer, count, type, op, stream);
    if (strikes(Damage::kReplicas)) static_cast<float*>(buffer)[kElement] += 1;
  }

  static constexpr int kElement = 5;
  static inline std::atomic<int> num_calls = 0;  // of gathers and reductions

 private:
  bool strikes(Damage damage) {
    return damage == damage_ && rank() == kDamagedRank && call_-- == 0;
  }

  Damage damage_;
  int call_;
};

std::unique_ptr<ShardedModel> make_model(Device& device, Damage damage, int call,
                                         const ShardingOptions& options) {
  return std::make_unique<ShardedModel>(
      make_toy_blocks({.num_layers = 4, .hidden = kHidden, .frozen_layers = {2}}), device,
      ShardingCommunicators{std::make_unique<DamagingCommunicator>(damage, call),
                            std::make_unique<DamagingCommunicator>(damage, call), nullptr},
      options);
}

// Every rank is a group by itself.
std::unique_ptr<ShardedModel> make_replica(Device& device, Damage damage) {
  const auto alone = [] {
    return test_world().connect(DamagingCommunicator::backend())->split(test_world().rank(), 0);
  };
  return std::make_unique<ShardedModel>(
      make_toy_blocks({.num_layers = 4, .hidden = kHidden, .frozen_layers = {2}}), device,
      ShardingCommunicators{alone(), alone(), std::make_unique<DamagingCommunicator>(damage, 0)},
      ShardingOptions{.self_test = true});
}

// Returns the error message of this rank, or an empty text where nothing was wrong.
std::string error_of(const std::function<void()>& work, ErrorCategory category) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), category);
    return error.message();
  }
  return "";
}

std::string trained_with(Damage damage, int call) {
  const auto device = make_cpu_device({.num_threads = 1});
  std::string text;
  const auto model = make_model(*device, damage, call, {.check_gathers = true});
  DeviceBatch batch;
  batch.loss_weight = at::zeros({kRows * kHidden});
  for (int step = 0; step < 2 && text.empty(); ++step) {
    text = error_of([&] { model->train({&batch, 1}); }, ErrorCategory::kReplicasDiffer);
  }
  return text;
}

TEST(GatherCheck, FindsNothingInSoundGathers) {
  EXPECT_EQ(trained_with(Damage::kNone, 0), "");
}

TEST(GatherCheck, NamesUnitRankAndOwnerOnEveryRank) {
  if (test_world().size() == 1) return;  // one rank gathers nothing
  EXPECT_EQ(trained_with(Damage::kGather, 0),
            "gather 0 of this step, of first: rank 1 of " + std::to_string(test_world().size()) +
                " holds other weights than rank 0, which owns them");
  EXPECT_NE(trained_with(Damage::kGather, 3).find("gather 3 of this step, of layer"),
            std::string::npos);
}

std::string tested_with(Damage damage, int call) {
  const auto device = make_cpu_device({.num_threads = 1});
  return error_of([&] { make_model(*device, damage, call, {.self_test = true}); },
                  ErrorCategory::kDevice);
}

TEST(SelfTest, PassesOnSoundCollectivesAndLeavesZeros) {
  if (test_world().size() == 1) return;  // one rank has nothing to test
  const auto device = make_cpu_device({.num_threads = 1});
  const auto model = make_model(*device, Damage::kNone, 0, {.self_test = true});
  EXPECT_EQ(model->parameters().state().master.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(model->gradient().count_nonzero().item<std::int64_t>(), 0);
}

TEST(SelfTest, TheDamagedRankNamesTheFirstWrongElement) {
  const bool damaged = test_world().rank() == kDamagedRank;
  const std::string gather = tested_with(Damage::kGather, 0);
  EXPECT_EQ(gather, damaged ? "self-test at start: the all-gather (mpi) of first on rank 1, in "
                              "what rank 0 sent, is wrong at element 5: got 6, wanted 5"
                            : "");
  const std::string reduction = tested_with(Damage::kReduction, 0);
  EXPECT_EQ(reduction.find("self-test at start: the reduce-scatter (mpi) of "),
            damaged ? 0 : std::string::npos);
  EXPECT_EQ(reduction.find("on rank 1 is wrong at element 5: got ") != std::string::npos, damaged);
}

std::atomic<int> num_waits = 0;

std::unique_ptr<at::ObserverContext> count_wait(const at::RecordFunction& function) {
  if (std::string_view(function.name()) == "aten::_local_scalar_dense") ++num_waits;
  return nullptr;
}

// The number of waits does not depend on the number of ranks of a gather.
TEST(SelfTest, TheHostWaitsOnceForEachCollective) {
  if (test_world().size() == 1) return;
  const auto device = make_cpu_device({.num_threads = 1});
  DamagingCommunicator::num_calls = 0;
  num_waits = 0;
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(&count_wait));
  make_model(*device, Damage::kNone, 0, {.self_test = true});
  at::removeCallback(handle);
  EXPECT_GT(num_waits, 0);
  EXPECT_LE(num_waits, DamagingCommunicator::num_calls);
}

TEST(SelfTest, SumsAcrossGroupsAreTestedToo) {
  if (test_world().size() == 1) return;  // one group
  const auto device = make_cpu_device({.num_threads = 1});
  const auto model = make_replica(*device, Damage::kNone);
  EXPECT_EQ(model->gradient().count_nonzero().item<std::int64_t>(), 0);
  const bool damaged = test_world().rank() == kDamagedRank;
  const std::string text =
      error_of([&] { make_replica(*device, Damage::kReplicas); }, ErrorCategory::kDevice);
  EXPECT_EQ(text.find("self-test at start: the all-reduce across groups (mpi) of first in group 1 "
                      "is wrong at element 5: got "),
            damaged ? 0 : std::string::npos)
      << text;
}

}  // namespace
}  // namespace packtrain::test
