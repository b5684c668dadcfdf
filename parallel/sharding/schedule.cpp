#include "parallel/sharding/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

namespace packtrain {
namespace {

constexpr int kRotatingGradSlots = 2;

// One use of a unit's weights by the compute stream, and what its place in the step makes of it.
struct Use {
  ActionKind kind = ActionKind::kForward;
  int block = 0;
  int micro_batch = 0;
  int unit = 0;
  int weight_slot = 0;
  int next_unit = -1;  // next unit in the weight slot; -1: none in this step
  bool writes_gradient = false;
  bool first_write = false;  // of the unit's gradient in this micro-batch
  bool last_write = false;
  bool accumulate = false;  // the memory already has a gradient, which is added to
  bool adds_micro_batches = false;
};

std::vector<Use> list_uses(const UnitTable& table, const SlotTable& slots,
                           const ScheduleOptions& options) {
  std::vector<Use> uses;
  const int last = static_cast<int>(table.unit_of_block.size()) - 1;
  const auto add = [&](ActionKind kind, int block, int micro_batch) {
    Use use{.kind = kind, .block = block, .micro_batch = micro_batch};
    use.unit = table.unit_of_block[block];
    use.weight_slot = slots.weight_slot_of_unit[use.unit];
    // The last block may write its gradients already in forward.
    use.writes_gradient = options.training && !table.units[use.unit].trainable_parts().empty() &&
                          (kind == ActionKind::kBackward || block == last);
    uses.push_back(use);
  };
  for (int m = 0; m < options.num_micro_batches; ++m) {
    for (int b = 0; b <= last; ++b) add(ActionKind::kForward, b, m);
    if (!options.training) continue;
    for (int b = last; b >= table.first_trainable_block; --b) add(ActionKind::kBackward, b, m);
  }
  return uses;
}

void mark_slot_changes(std::vector<Use>& uses, int num_weight_slots) {
  std::vector<int> next(num_weight_slots, -1);
  for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
    use->next_unit = std::exchange(next[use->weight_slot], use->unit);
  }
}

void mark_gradient_writes(std::vector<Use>& uses, bool sums_micro_batches) {
  std::map<std::pair<int, int>, std::vector<Use*>> writers;  // of (unit, micro-batch)
  for (Use& use : uses) {
    if (use.writes_gradient) writers[{use.unit, use.micro_batch}].push_back(&use);
  }
  for (auto& [key, list] : writers) {
    list.front()->first_write = true;
    list.back()->last_write = true;
    const bool adds_up = sums_micro_batches && key.second > 0;
    for (Use* use : list) {
      use->accumulate = adds_up || use->block != list.front()->block;
      use->adds_micro_batches = adds_up;
    }
  }
}

class Builder {
 public:
  Builder(const UnitTable& table, const SlotTable& slots, const ScheduleOptions& options)
      : table_(table), slots_(slots), options_(options), uses_(list_uses(table, slots, options)) {
    mark_slot_changes(uses_, slots.num_weight_slots);
    mark_gradient_writes(uses_, slots.grads_in_place || sums_locally_);
    gather_of_slot_.assign(slots.num_weight_slots, -1);
    reduction_of_slot_.assign(slots.num_slots_and_sums(), -1);
    accumulate_.assign(table.units.size(), false);
  }

  Schedule build() {
    if (slots_.gathers()) gather_first_units();
    for (const Use& use : uses_) {
      const int grad_slot = use.writes_gradient ? grad_slot_of(use) : -1;
      compute(use, grad_slot);
      if (is_reduced(use) && !defers_weight_grads(use)) reduce(use, grad_slot);
      if (changes_slot(use) && use.next_unit >= 0) {
        gather(use.next_unit, {slots_.free(use.weight_slot)});
      }
      if (defers_weight_grads(use)) deferred_weight_grads_ = {&use, grad_slot};
    }
    if (deferred_weight_grads_.first != nullptr)
      gradients(*deferred_weight_grads_.first, deferred_weight_grads_.second);
    return std::move(schedule_);
  }

 private:
  bool changes_slot(const Use& use) const { return slots_.gathers() && use.next_unit != use.unit; }

  // Gradients in place are reduced across replicas alone, once a step, as local sums are.
  bool is_reduced(const Use& use) const {
    return use.last_write && ((!slots_.grads_in_place && !sums_locally_) || completes(use));
  }

  bool completes(const Use& use) const {
    return slots_.reduces() && use.micro_batch + 1 == options_.num_micro_batches;
  }

  // True for the block before an embedding in a step's backward, when both are reduced.
  bool defers_weight_grads(const Use& use) const {
    const int first = table_.first_trainable_block;
    if (use.kind != ActionKind::kBackward || use.block != first + 1 || !slots_.gathers())
      return false;
    const int last_unit = table_.unit_of_block[first];
    return completes(use) && use.first_write && use.last_write &&
           table_.units[last_unit].resident && last_unit != use.unit;
  }

  // Gathers each slot's first unit, in the order of first use, as the optimizer updates them.
  void gather_first_units() {
    std::vector<bool> seen(slots_.num_weight_slots, false);
    for (const Use& use : uses_) {
      if (!seen[use.weight_slot]) {
        gather(use.unit, {slots_.free(use.weight_slot), slots_.updated(use.unit)});
      }
      seen[use.weight_slot] = true;
    }
  }

  void gather(int unit, std::vector<int> waits) {
    Action action{.kind = ActionKind::kGather, .unit = unit};
    action.weight_slot = slots_.weight_slot_of_unit[unit];
    action.waits = std::move(waits);
    action.records = {slots_.ready(action.weight_slot)};
    gather_of_slot_[action.weight_slot] = num_gathers_++;
    schedule_.push_back(std::move(action));
  }

  void compute(const Use& use, int grad_slot) {
    Action action{
        .kind = use.kind, .unit = use.unit, .block = use.block, .micro_batch = use.micro_batch};
    action.weight_slot = use.weight_slot;
    action.grad_slot = grad_slot;
    action.training = options_.training && use.block >= table_.first_trainable_block;
    action.accumulate = use.accumulate;
    action.adds_micro_batches = use.adds_micro_batches;
    action.releases = changes_slot(use);
    if (needs_wait(gather_of_slot_[use.weight_slot], gathers_seen_)) {
      action.waits.push_back(slots_.ready(use.weight_slot));
    }
    if (use.first_write && needs_wait(reduction_of_slot_[grad_slot], reductions_seen_)) {
      action.waits.push_back(slots_.grad_free(grad_slot));
    }
    if (action.releases) action.records.push_back(slots_.free(use.weight_slot));
    action.defers_weight_grads = defers_weight_grads(use);
    if (is_reduced(use) && !action.defers_weight_grads) {
      action.records.push_back(slots_.grad_ready(grad_slot));
    }
    schedule_.push_back(std::move(action));
  }

  void gradients(const Use& use, int grad_slot) {
    Action action{.kind = ActionKind::kWeightGrad, .unit = use.unit, .block = use.block};
    action.micro_batch = use.micro_batch;
    action.grad_slot = grad_slot;
    action.accumulate = use.accumulate;
    action.records = {slots_.grad_ready(grad_slot)};
    schedule_.push_back(std::move(action));
    reduce(use, grad_slot);
  }

  void reduce(const Use& use, int grad_slot) {
    Action action{.kind = ActionKind::kReduce, .unit = use.unit};
    action.micro_batch = use.micro_batch;
    action.grad_slot = grad_slot;
    action.accumulate = accumulate_[use.unit];
    action.completes = completes(use);
    action.waits = {slots_.grad_ready(grad_slot)};
    action.records = {slots_.grad_free(grad_slot)};
    accumulate_[use.unit] = true;
    reduction_of_slot_[grad_slot] = num_reductions_++;
    schedule_.push_back(std::move(action));
  }

  // Streams keep their order: a wait for number n of a stream covers all earlier numbers.
  static bool needs_wait(int number, int& seen) {
    if (number <= seen) return false;
    seen = number;
    return true;
  }

  int grad_slot_of(const Use& use) {
    if (sums_locally_) return slots_.local_sum(use.unit);
    const int own = slots_.grad_slot_of_unit[use.unit];
    if (own >= 0) return own;
    return slots_.first_rotating_grad_slot() + (num_rotating_writes_++ % kRotatingGradSlots);
  }

  const UnitTable& table_;
  const SlotTable& slots_;
  ScheduleOptions options_;
  bool sums_locally_ = slots_.sums_locally && options_.num_micro_batches > 1;
  std::vector<Use> uses_;
  Schedule schedule_;
  std::vector<int> gather_of_slot_;     // [weight slots] number of the gather that filled it
  std::vector<int> reduction_of_slot_;  // [gradient slots, local sums] the reduction that read it
  int num_gathers_ = 0;
  int num_reductions_ = 0;
  int gathers_seen_ = -1;         // the compute stream has waited for these
  int reductions_seen_ = -1;      // the compute stream has waited for these
  std::vector<bool> accumulate_;  // [units] the shard holds an earlier micro-batch's gradient
  int num_rotating_writes_ = 0;
  std::pair<const Use*, int> deferred_weight_grads_ = {nullptr, -1};  // with its gradient slot
};

// Assigns slots to resident units, and to all gradients that are written in place. The first and
// the last unit may share theirs. A unit of several blocks is in use all the time.
void give_own_slots(SlotTable& slots, const UnitTable& table, bool share) {
  slots.weight_slot_of_unit.assign(table.units.size(), -1);
  slots.grad_slot_of_unit.assign(table.units.size(), -1);
  int shared_weights = -1;
  int shared_gradient = -1;
  const auto take = [share](int& shared, int& count, bool may_share) {
    if (!share || !may_share) return count++;
    if (shared < 0) shared = count++;
    return shared;
  };
  for (std::size_t u = 0; u < table.units.size(); ++u) {
    const Unit& unit = table.units[u];
    const bool may_share = unit.blocks.size() == 1;
    if ((unit.resident || slots.grads_in_place) && !unit.trainable_parts().empty()) {
      slots.grad_slot_of_unit[u] = take(shared_gradient, slots.num_grad_slots, may_share);
    }
    if (unit.resident) {
      slots.weight_slot_of_unit[u] = take(shared_weights, slots.num_weight_slots, may_share);
    }
  }
}

}  // namespace

const char* name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kGather:
      return "gather";
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kWeightGrad:
      return "gradients";
    case ActionKind::kReduce:
      break;
  }
  return "reduce";
}

ActionStream Action::stream() const {
  switch (kind) {
    case ActionKind::kGather:
      return ActionStream::kGather;
    case ActionKind::kReduce:
      return ActionStream::kReduce;
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kWeightGrad:
      break;
  }
  return ActionStream::kCompute;
}

SlotTable make_slot_table(const UnitTable& table, const SlotOptions& options) {
  SlotTable slots;
  slots.num_units = static_cast<int>(table.units.size());
  slots.grads_in_place = options.num_ranks == 1;
  slots.has_replicas = options.num_replicas > 1;
  slots.sums_locally = options.sums_locally && !slots.grads_in_place;
  const bool keep_all = options.zero_stage == 2 || options.num_ranks == 1;
  give_own_slots(slots, table, !keep_all && !options.resident_embeddings);
  const auto num_rotating_units =
      static_cast<int>(std::ranges::count(slots.weight_slot_of_unit, -1));
  const int num_rotating =
      keep_all ? num_rotating_units : std::min(options.gather_slots, num_rotating_units);
  int number = 0;
  for (int& slot : slots.weight_slot_of_unit) {
    if (slot < 0) slot = slots.num_weight_slots + (number++ % num_rotating);
  }
  slots.num_weight_slots += num_rotating;
  slots.num_rotating_grad_slots = slots.grads_in_place ? 0 : kRotatingGradSlots;
  slots.num_grad_slots += slots.num_rotating_grad_slots;
  return slots;
}

Schedule make_schedule(const UnitTable& table, const SlotTable& slots,
                       const ScheduleOptions& options) {
  return Builder(table, slots, options).build();
}

}  // namespace packtrain
