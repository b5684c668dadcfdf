// The schedule of an optimizer step, as data: every gather, forward, backward and reduction in the
// order in which the host issues them. Each action has a stream, slots and events. Building it
// needs no device, so a test can replay it (tests/parallel/sharding), and the driver only executes
// it. Ranks are those of one shard group; groups are replicas of each other.
//
// There are three streams: gather (all-gathers), compute (blocks), reduce (reduce-scatters).
//
// A weight slot holds one gathered unit. Resident units have their own slots. The others rotate
// over `num_rotating_slots` slots. Unit n of them is always in slot n modulo that number, so that
// the addresses of weights never change. A slot is gathered again as soon as its next use needs
// another unit. So the last blocks of forward stay for backward, and the first ones of backward
// stay for the next micro-batch. A unit that the next step begins with is gathered as soon as the
// optimizer has updated it.
//
// Gradients rotate over two slots; resident units have their own. One rank needs no reduction:
// blocks write each unit's gradient where the optimizer reads it, and add to it from the second
// micro-batch on. Replicas sum the gradients after the last micro-batch.
//
// With local sums, each of several ranks does the same in a step of several micro-batches. Blocks
// write and add to a sum that the rank has for each unit. The backward of the last micro-batch
// completes it, and it is reduced once.
//
// After the backward of the first block no compute is left to hide the reduction of its gradient.
// This block is usually an embedding, with a gradient much larger than a block's and little
// compute. So the previous block in backward defers its weight gradients until the first block is
// done. The embedding's gradient is reduced meanwhile.
#pragma once

#include <vector>

#include "parallel/sharding/unit_table.h"

namespace packtrain {

// kWeightGrad: the weight gradients that a backward deferred.
enum class ActionKind { kGather, kForward, kBackward, kWeightGrad, kReduce };
const char* name_of(ActionKind kind);  // for messages
enum class ActionStream { kGather, kCompute, kReduce };

struct Action {
  ActionKind kind = ActionKind::kGather;
  int unit = 0;
  int block = -1;        // forward, backward and weight gradients
  int micro_batch = 0;   // forward, backward and weight gradients
  int weight_slot = -1;  // gather writes it; forward and backward read it
  // Backward (and the last block's forward) write it; reduce reads it. A slot or a local sum.
  int grad_slot = -1;
  bool training = false;             // forward: save activations for backward
  bool defers_weight_grads = false;  // backward: a kWeightGrad follows
  // Reduce: add to the shard. Backward, deferred weight gradients and the last block's forward: add
  // to the gradient of another block. With gradients in place and with local sums it may be that of
  // another micro-batch.
  bool accumulate = false;
  bool adds_micro_batches = false;  // accumulate: to the gradient of another micro-batch
  // Compute: the last use of the weight slot before its next gather, in this step or the next.
  bool releases = false;
  bool completes = false;         // reduce: the unit's last one of the step
  std::vector<int> waits = {};    // events this waits for
  std::vector<int> records = {};  // events recorded when it is done

  ActionStream stream() const;
};

using Schedule = std::vector<Action>;

struct ScheduleOptions {
  int num_micro_batches = 1;
  bool training = true;  // false: forwards only
};

struct SlotOptions {
  int zero_stage = 3;               // 3: weights sharded; 2: weights stay gathered during a step
  int gather_slots = 3;             // stage 3: rotating weight slots
  bool resident_embeddings = true;  // stage 3, false: embedding and head share their slots
  int num_ranks = 1;                // of a shard group
  int num_replicas = 1;             // shard groups
  bool sums_locally = false;        // several ranks: reduce gradients once a step
};

// Slots and events of a model, shared by all of its schedules.
struct SlotTable {
  std::vector<int> weight_slot_of_unit;  // [units]
  int num_weight_slots = 0;              // resident units' slots first
  std::vector<int> grad_slot_of_unit;    // [units]; -1: rotates, or has no gradient
  int num_grad_slots = 0;                // the rotating ones last
  int num_rotating_grad_slots = 0;
  // One rank: blocks use weights and write gradients directly in the shard.
  bool grads_in_place = false;
  bool has_replicas = false;  // replicas sum a complete gradient
  // Several ranks: a step of several micro-batches sums its gradients on the rank. Each unit has a
  // local sum, numbered after the gradient slots.
  bool sums_locally = false;
  int num_units = 0;

  bool gathers() const { return !grads_in_place; }
  // Blocks add a step's micro-batches up.
  bool sums_micro_batches() const { return grads_in_place || sums_locally; }
  bool reduces() const { return !grads_in_place || has_replicas; }
  int first_rotating_grad_slot() const { return num_grad_slots - num_rotating_grad_slots; }
  int local_sum(int unit) const { return num_grad_slots + unit; }
  bool is_local_sum(int grad_slot) const { return grad_slot >= num_grad_slots; }
  int num_slots_and_sums() const { return num_grad_slots + (sums_locally ? num_units : 0); }
  // From where a unit's local sum is sent, in the dtype of the reduction. The reduce stream alone
  // uses it in such a step.
  int send_slot(int unit) const {
    const int own = grad_slot_of_unit[unit];
    return own >= 0 ? own : first_rotating_grad_slot();
  }

  // Event numbers. `free`: the last use of a slot is done, in this or the previous schedule.
  // `updated`: the optimizer has written the unit's weights. `reduced`: all reductions are done.
  // `reduced_except_last`: all but the last ones, which no compute hides.
  int ready(int weight_slot) const { return weight_slot; }
  int free(int weight_slot) const { return num_weight_slots + weight_slot; }
  int grad_ready(int grad_slot) const { return 2 * num_weight_slots + grad_slot; }
  int grad_free(int grad_slot) const {
    return 2 * num_weight_slots + num_slots_and_sums() + grad_slot;
  }
  int updated(int unit) const { return 2 * (num_weight_slots + num_slots_and_sums()) + unit; }
  int reduced() const { return updated(num_units); }
  int reduced_except_last() const { return reduced() + 1; }
  int num_events() const { return reduced_except_last() + 1; }
};

// Stage 2, or one rank: every unit has its own weight slot. Otherwise `gather_slots` slots rotate:
// at least 1, and at most as many as there are rotating units. One rank: gradients in place.
SlotTable make_slot_table(const UnitTable& table, const SlotOptions& options);

Schedule make_schedule(const UnitTable& table, const SlotTable& slots,
                       const ScheduleOptions& options);

}  // namespace packtrain
