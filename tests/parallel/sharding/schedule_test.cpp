#include "parallel/sharding/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "tests/parallel/sharding/replay.h"
#include "tests/parallel/sharding/toy_blocks.h"

namespace packtrain::test {
namespace {

struct Case {
  ToyOptions model;
  int num_micro_batches;
  bool training;
  SlotOptions slots = {.num_ranks = 2};
};

// Slots of 1, 2, 3 and more than enough; embeddings that share; one rank; replicas; local sums.
std::vector<SlotOptions> slot_options() {
  std::vector<SlotOptions> list;
  for (const int slots : {1, 2, 3, 99}) {
    list.push_back({.gather_slots = slots, .num_ranks = 2});
    list.push_back({.gather_slots = slots, .resident_embeddings = false, .num_ranks = 2});
    list.push_back({.gather_slots = slots, .num_ranks = 2, .sums_locally = true});
  }
  list.push_back({.resident_embeddings = false, .num_ranks = 2, .sums_locally = true});
  list.push_back({.num_ranks = 2, .num_replicas = 2, .sums_locally = true});
  list.push_back({.zero_stage = 2, .num_ranks = 2, .sums_locally = true});
  list.push_back({.num_ranks = 1});
  list.push_back({.num_ranks = 1, .num_replicas = 2});
  list.push_back({.num_ranks = 2, .num_replicas = 2});
  list.push_back({.zero_stage = 2, .num_ranks = 2});
  return list;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int layers : {1, 2, 5}) {
    for (const bool tied : {false, true}) {
      for (const std::vector<int>& frozen : {std::vector<int>{}, {0}, {1, 3}}) {
        ToyOptions model{.num_layers = layers, .hidden = 8, .tied = tied, .frozen_layers = frozen};
        model.frozen_first = frozen == std::vector<int>{0};
        for (const SlotOptions& slots : slot_options()) {
          for (const int micro_batches : {1, 3}) {
            for (const bool training : {true, false}) {
              cases.push_back({model, micro_batches, training, slots});
            }
          }
        }
      }
    }
  }
  return cases;
}

std::string describe(const Case& c) {
  return fmt::format(
      "{} layers, tied {}, {} frozen, {} slots, embeddings resident {}, {} micro-batches, "
      "training {}, {} ranks, {} replicas, local sums {}",
      c.model.num_layers, c.model.tied, c.model.frozen_layers.size(), c.slots.gather_slots,
      c.slots.resident_embeddings, c.num_micro_batches, c.training, c.slots.num_ranks,
      c.slots.num_replicas, c.slots.sums_locally);
}

struct Made {
  std::vector<std::unique_ptr<Block>> blocks;
  UnitTable table;
  SlotTable slots;
  ScheduleOptions options;
  Schedule schedule;
};

Made make(const Case& c) {
  Made made;
  made.blocks = make_toy_blocks(c.model);
  made.table = make_unit_table(made.blocks, c.slots.num_ranks);
  made.slots = make_slot_table(made.table, c.slots);
  made.options = {c.num_micro_batches, c.training};
  made.schedule = make_schedule(made.table, made.slots, made.options);
  return made;
}

TEST(Schedule, HasNoRaceAndGivesEveryBlockItsOwnWeights) {
  for (const Case& c : all_cases()) {
    const Made made = make(c);
    const auto faults = find_faults(made.schedule, made.table, made.slots, made.options);
    EXPECT_TRUE(faults.empty()) << describe(c) << ": " << faults.front();
  }
}

TEST(Schedule, EveryWaitIsNeeded) {
  for (const Case& c : all_cases()) {
    const Made made = make(c);
    for (std::size_t a = 0; a < made.schedule.size(); ++a) {
      for (std::size_t w = 0; w < made.schedule[a].waits.size(); ++w) {
        Schedule damaged = made.schedule;
        damaged[a].waits.erase(damaged[a].waits.begin() + static_cast<std::ptrdiff_t>(w));
        EXPECT_FALSE(find_faults(damaged, made.table, made.slots, made.options).empty())
            << describe(c) << ": wait " << w << " of action " << a << " guards nothing";
      }
    }
  }
}

TEST(Schedule, GathersEachUnitOnceWhenEverySlotIsKept) {
  const Made made = make({{.num_layers = 5}, 3, true, {.gather_slots = 99, .num_ranks = 2}});
  std::size_t num_gathers = 0;
  for (const Action& action : made.schedule)
    num_gathers += action.kind == ActionKind::kGather ? 1 : 0;
  EXPECT_EQ(num_gathers, made.table.units.size());
}

TEST(Schedule, BackwardReusesTheUnitsThatAreStillGathered) {
  // 5 rotating units share 3 slots. Forward gathers 5, backward only the 2 that were overwritten.
  // The next micro-batch finds the first 3 still gathered.
  const Made made = make({{.num_layers = 5}, 2, true});
  std::size_t num_gathers = 0;
  for (const Action& action : made.schedule)
    num_gathers += action.kind == ActionKind::kGather ? 1 : 0;
  EXPECT_EQ(num_gathers, 2U + 5U + 2U + 2U + 2U);  // resident, forward, backward, forward, backward
}

TEST(Schedule, OneRankGathersAndReducesNothingAndWaitsForNothing) {
  Case c{{.num_layers = 5}, 3, true};
  const auto num_reductions = [](const Made& made) {
    return std::ranges::count(made.schedule, ActionKind::kReduce, &Action::kind);
  };
  EXPECT_EQ(num_reductions(make(c)), 7 * 3);
  c.slots.num_ranks = 1;
  const Made alone = make(c);
  EXPECT_EQ(num_reductions(alone), 0);
  EXPECT_EQ(std::ranges::count(alone.schedule, ActionKind::kGather, &Action::kind), 0);
  for (const Action& action : alone.schedule) {
    EXPECT_TRUE(action.waits.empty() && action.records.empty());
  }
  EXPECT_EQ(alone.slots.num_grad_slots, 7);  // every unit has its own place
}

TEST(Schedule, ReplicasReduceEachUnitOnceAStep) {
  Case c{{.num_layers = 5}, 3, true};
  c.slots.num_replicas = 2;
  for (const int ranks : {1, 2}) {
    c.slots.num_ranks = ranks;
    EXPECT_EQ(std::ranges::count(make(c).schedule, true, &Action::completes), 7);
  }
}

// Returns the kind and the unit of each of a step's last actions.
std::vector<std::string> last_actions(const Made& made, std::size_t num) {
  std::vector<std::string> list;
  for (std::size_t a = made.schedule.size() - num; a < made.schedule.size(); ++a) {
    const Action& action = made.schedule[a];
    list.push_back(fmt::format("{} {}", name_of(action.kind), made.table.units[action.unit].name));
  }
  return list;
}

std::vector<Action> of_kind(const Made& made, ActionKind kind) {
  std::vector<Action> found;
  std::ranges::copy_if(made.schedule, std::back_inserter(found),
                       [&](const Action& action) { return action.kind == kind; });
  return found;
}

TEST(Schedule, LocalSumsAreReducedInTheBackwardOfTheLastMicroBatch) {
  Case c{{.num_layers = 5}, 3, true};
  const Made shard = make(c);
  c.slots.sums_locally = true;
  const Made local = make(c);
  const std::vector<Action> reductions = of_kind(local, ActionKind::kReduce);
  EXPECT_EQ(reductions.size(), 7U);
  for (const Action& reduction : reductions) {
    EXPECT_EQ(reduction.micro_batch, 2);
    EXPECT_TRUE(reduction.completes);
    EXPECT_EQ(reduction.grad_slot, local.slots.local_sum(reduction.unit));
  }
  EXPECT_EQ(of_kind(local, ActionKind::kGather).size(), of_kind(shard, ActionKind::kGather).size());
  EXPECT_EQ(last_actions(local, 5), last_actions(shard, 5));
}

TEST(Schedule, LocalSumsChangeNothingOfOneMicroBatchOrOfOneRank) {
  for (const int ranks : {1, 2}) {
    Case c{{.num_layers = 5}, ranks == 1 ? 3 : 1, true, {.num_ranks = ranks}};
    const Made shard = make(c);
    c.slots.sums_locally = true;
    const Made local = make(c);
    ASSERT_EQ(local.schedule.size(), shard.schedule.size());
    EXPECT_EQ(last_actions(local, local.schedule.size()),
              last_actions(shard, shard.schedule.size()));
    for (std::size_t a = 0; a < shard.schedule.size(); ++a) {
      EXPECT_EQ(local.schedule[a].weight_slot, shard.schedule[a].weight_slot);
      EXPECT_EQ(local.schedule[a].grad_slot, shard.schedule[a].grad_slot);
      EXPECT_EQ(local.schedule[a].accumulate, shard.schedule[a].accumulate);
      EXPECT_EQ(local.schedule[a].waits.size(), shard.schedule[a].waits.size());
    }
  }
}

// Returns faults found where `change` has damaged one reduction of local sums.
std::size_t faults_after(const std::function<void(Action&)>& change) {
  const Made made = make({{.num_layers = 3}, 2, true, {.num_ranks = 2, .sums_locally = true}});
  Schedule damaged = made.schedule;
  const auto first = std::ranges::find(damaged, ActionKind::kReduce, &Action::kind);
  change(*first);
  return find_faults(damaged, made.table, made.slots, made.options).size();
}

TEST(Schedule, ReplayFindsAReductionOfAnUnfinishedLocalSum) {
  EXPECT_EQ(faults_after([](Action&) {}), 0U);
  EXPECT_GT(faults_after([](Action& reduce) { reduce.micro_batch = 0; }), 0U);
  EXPECT_GT(faults_after([](Action& reduce) { reduce.accumulate = true; }), 0U);
  EXPECT_GT(faults_after([](Action& reduce) { reduce.completes = false; }), 0U);
  EXPECT_GT(faults_after([](Action& reduce) { reduce.waits.clear(); }), 0U);
}

TEST(Schedule, ReducesTheFirstUnitWhileTheNextOnesGradientsAreMade) {
  for (const int micro_batches : {1, 3}) {
    const Made made = make({{.num_layers = 5}, micro_batches, true});
    EXPECT_EQ(last_actions(made, 5),
              (std::vector<std::string>{"backward layer0", "backward first", "reduce first",
                                        "gradients layer0", "reduce layer0"}));
    EXPECT_EQ(std::ranges::count(made.schedule, true, &Action::defers_weight_grads), 1);
  }
  ToyOptions frozen{.num_layers = 5};
  frozen.frozen_first = true;
  EXPECT_EQ(last_actions(make({frozen, 1, true}), 2),
            (std::vector<std::string>{"backward layer0", "reduce layer0"}));
}

TEST(Schedule, EmbeddingAndHeadShareTheirSlotsWhenTheyAreNotResident) {
  Case c{{.num_layers = 5}, 1, true};
  const SlotTable resident = make(c).slots;
  c.slots.resident_embeddings = false;
  const SlotTable shared = make(c).slots;
  EXPECT_EQ(shared.num_weight_slots, resident.num_weight_slots - 1);
  EXPECT_EQ(shared.num_grad_slots, resident.num_grad_slots - 1);
  EXPECT_EQ(shared.weight_slot_of_unit.front(), shared.weight_slot_of_unit.back());
  c.model.tied = true;  // one unit, in use from the first block to the last
  EXPECT_EQ(make(c).slots.num_weight_slots, shared.num_weight_slots);
}

TEST(Schedule, StopsBackwardAtTheFirstTrainedBlock) {
  ToyOptions model{
      .num_layers = 4, .hidden = 8, .tied = false, .frozen_layers = {0, 1}, .frozen_first = true};
  const Made made = make({model, 1, true});
  for (const Action& action : made.schedule) {
    if (action.kind == ActionKind::kBackward) {
      EXPECT_GE(action.block, 3);
    }
    if (action.kind == ActionKind::kForward) {
      EXPECT_EQ(action.training, action.block >= 3);
    }
  }
}

}  // namespace
}  // namespace packtrain::test
