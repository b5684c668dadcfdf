#include "tests/parallel/sharding/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace packtrain::test {
namespace {

using Clock = std::array<int, 3>;  // actions seen of each stream

enum class Resource { kWeightSlot, kGradSlot, kShard };

struct Access {
  std::string who;
  int stream;
  int number;  // of the action in its stream
  bool write;
};

class Replay {
 public:
  // What came before the schedule: a training step and the optimizer's update, or an evaluation
  // after them; slot `last` was in use longest.
  Replay(const UnitTable& table, const SlotTable& slots, const ScheduleOptions& options,
         bool evaluated_before, int last)
      : table_(table),
        slots_(slots),
        sums_micro_batches_(slots.grads_in_place ||
                            (slots.sums_locally && options.num_micro_batches > 1)) {
    events_.assign(slots.num_events(), Clock{});
    recorded_.assign(slots.num_events(), false);
    content_.assign(slots.num_weight_slots, -1);
    if (evaluated_before) update();
    for (int s = 1; s <= slots.num_weight_slots; ++s) use_slot((last + s) % slots.num_weight_slots);
    if (!evaluated_before) update();
  }

  void execute_action(const Action& action) {
    const std::string who =
        fmt::format("{} of unit {} (block {}, micro-batch {})", name_of(action.kind), action.unit,
                    action.block, action.micro_batch);
    step(action, who, [&] {
      if (action.kind == ActionKind::kGather) {
        access(Resource::kShard, action.unit, false);
        access(Resource::kWeightSlot, action.weight_slot, true);
        content_[action.weight_slot] = action.unit;
      } else if (action.kind == ActionKind::kReduce) {
        access(Resource::kGradSlot, action.grad_slot, slots_.grads_in_place);
        if (slots_.is_local_sum(action.grad_slot))
          access(Resource::kGradSlot, slots_.send_slot(action.unit), true);
        ++reductions_[{action.unit, action.micro_batch}];
        const bool adds = !sums_micro_batches_ && action.micro_batch > 0;
        if (action.accumulate != adds) fault("adds up wrongly");
        if (action.completes) ++completions_[action.unit];
      } else {
        compute(action);
      }
    });
  }

  std::vector<std::string> finish(const ScheduleOptions& options) {
    if (deferred_weight_grads_ >= 0)
      faults_.push_back(fmt::format("block {} is never finished", deferred_weight_grads_));
    for (int u = 0; u < slots_.num_units; ++u) {
      const bool trains = options.training && !table_.units[u].trainable_parts().empty();
      for (int m = 0; m < options.num_micro_batches; ++m) {
        const bool last = m + 1 == options.num_micro_batches;
        const bool wanted = trains && slots_.reduces() && (!sums_micro_batches_ || last);
        if (reductions_[{u, m}] != (wanted ? 1 : 0)) {
          faults_.push_back(fmt::format("unit {} is reduced {} times", u, reductions_[{u, m}]));
        }
      }
      if (completions_[u] != (trains && slots_.reduces() ? 1 : 0)) {
        faults_.push_back(fmt::format("unit {} is complete {} times", u, completions_[u]));
      }
    }
    return faults_;
  }

 private:
  void use_slot(int slot) {
    step(Action{.kind = ActionKind::kForward, .records = {slots_.free(slot)}}, "the step before",
         [&] { access(Resource::kWeightSlot, slot, true); });
  }

  void update() {
    for (int u = 0; u < slots_.num_units; ++u) {
      step(Action{.kind = ActionKind::kForward, .records = {slots_.updated(u)}}, "the optimizer",
           [&] { access(Resource::kShard, u, true); });
    }
  }

  void compute(const Action& action) {
    if (action.kind == ActionKind::kWeightGrad) {
      if (deferred_weight_grads_ != action.block) fault("was not put off");
      deferred_weight_grads_ = -1;
    } else if (slots_.gathers()) {
      access(Resource::kWeightSlot, action.weight_slot, action.releases);  // poison writes it
      if (content_[action.weight_slot] != action.unit) fault("finds another unit in its slot");
    } else {
      access(Resource::kShard, action.unit, false);
    }
    if (action.defers_weight_grads) deferred_weight_grads_ = action.block;
    if (action.grad_slot < 0) return;
    access(Resource::kGradSlot, action.grad_slot, true);
    // In place and in local sums, later micro-batches add to the first; else each starts from zero.
    const int sum = sums_micro_batches_ ? 0 : action.micro_batch;
    const std::pair writer(action.block, action.micro_batch);
    const auto first = first_writers_.try_emplace({action.unit, sum}, writer).first->second;
    if (action.accumulate != (first != writer)) fault("adds up wrongly");
  }

  template <class Body>
  void step(const Action& action, const std::string& who, const Body& body) {
    stream_ = static_cast<int>(action.stream());
    who_ = who;
    Clock& clock = clocks_[stream_];
    for (const int event : action.waits) {
      if (!recorded_[event]) fault(fmt::format("waits for event {}, which nobody records", event));
      for (int s = 0; s < 3; ++s) clock[s] = std::max(clock[s], events_[event][s]);
    }
    ++clock[stream_];
    body();
    for (const int event : action.records) {
      events_[event] = clock;
      recorded_[event] = true;
    }
  }

  void access(Resource resource, int index, bool write) {
    auto& history = accesses_[{resource, index}];
    const Clock& now = clocks_[stream_];
    for (const Access& before : history) {
      if ((write || before.write) && now[before.stream] < before.number) {
        fault("races with " + before.who);
      }
    }
    history.push_back({who_, stream_, now[stream_], write});
  }

  void fault(const std::string& what) { faults_.push_back(who_ + " " + what); }

  const UnitTable& table_;
  const SlotTable& slots_;
  bool sums_micro_batches_;
  std::array<Clock, 3> clocks_{};
  std::vector<Clock> events_;
  std::vector<bool> recorded_;
  std::vector<int> content_;
  std::map<std::pair<Resource, int>, std::vector<Access>> accesses_;
  std::map<std::pair<int, int>, int> reductions_;
  std::map<int, int> completions_;                                    // [units]
  std::map<std::pair<int, int>, std::pair<int, int>> first_writers_;  // block, micro-batch
  int deferred_weight_grads_ = -1;                                    // block
  std::vector<std::string> faults_;
  std::string who_;
  int stream_ = 0;
};

}  // namespace

std::vector<std::string> find_faults(const Schedule& schedule, const UnitTable& table,
                                     const SlotTable& slots, const ScheduleOptions& options) {
  std::vector<std::string> faults;
  for (int before = -1; before < slots.num_weight_slots; ++before) {
    Replay replay(table, slots, options, before >= 0, std::max(before, 0));
    for (const Action& action : schedule) replay.execute_action(action);
    for (std::string& fault : replay.finish(options)) faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace packtrain::test
