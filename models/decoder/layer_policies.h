// Recompute policies of a decoder's layers.
#pragma once

#include <cstdint>

#include "models/block/operator_tape.h"

namespace packtrain {

// Inputs on the device at most when `inputs_on_host`: those being copied, and that of the layer
// that runs.
inline constexpr int kInputsOnDevice = 3;

// `first` in the first `num_first` layers, `rest` in the others. A layer that recomputes needs its
// values again in its own backward. The first layers run backward last, when the other layers have
// freed theirs, so that memory does not peak there.
struct LayerPolicies {
  // NOLINTNEXTLINE(google-explicit-constructor): one policy is that of all layers.
  LayerPolicies(RecomputePolicy all) : first(all), rest(all) {}
  LayerPolicies(RecomputePolicy of_first, std::int64_t num, RecomputePolicy of_rest)
      : first(of_first), rest(of_rest), num_first(num) {}

  RecomputePolicy first;
  RecomputePolicy rest;
  std::int64_t num_first = 0;
  // The inputs of all layers but the last are not on the device from forward to backward.
  bool inputs_on_host = false;

  const RecomputePolicy& of(std::int64_t layer) const { return layer < num_first ? first : rest; }
};

}  // namespace packtrain
