#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "framework/device/device.h"
#include "parallel/sharding/optimizer_state.h"

namespace packtrain {

struct ShardingOptions {
  int zero_stage = 3;  // as in SlotOptions
  int gather_slots = 3;
  bool resident_embeddings = true;
  bool sums_locally = false;
  at::ScalarType reduce = at::kFloat;  // dtype of the gradients that blocks write and ranks sum
  // The optimizer declares it. Empty: no state.
  std::vector<OptimizerStateSpec> optimizer_state = {};
  bool poison_slots = false;   // fill weight slots with NaN when released
  bool self_test = false;      // test all slots with known values first
  bool check_gathers = false;  // compare checksums of gathered weights after each pass
  // Keep the inputs of all blocks but the last two in host memory from forward to backward.
  bool offload_inputs = false;
  // Keep the optimizer's state and the master of weights that are not float32 in host memory.
  bool offload_state = false;
  // The compute stream of another model, which outlives this one: their work is in one order. Null:
  // the model has its own.
  Stream* compute = nullptr;
};

}  // namespace packtrain
