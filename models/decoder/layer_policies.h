// Recompute policies of a decoder's layers.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/recompute_by_rows.h"

namespace packtrain {

// Inputs on the device at most when `inputs_on_host`: those being copied, and that of the layer
// that runs.
inline constexpr int kInputsOnDevice = 3;

// `first` in the first `num_first` layers, `rest` in the others. A layer that recomputes needs its
// values again in its own backward. The first layers run backward last, when the other layers have
// freed theirs, so that memory does not peak there.
struct LayerPolicies {
  // The policies of micro-batches of at most `max_rows` rows.
  struct Smaller {
    std::int64_t max_rows;
    RecomputePolicy first;
    std::int64_t num_first;
    RecomputePolicy rest;
  };

  // NOLINTNEXTLINE(google-explicit-constructor): one policy is that of all layers.
  LayerPolicies(RecomputePolicy all) : first(all), rest(all) {}
  LayerPolicies(RecomputePolicy of_first, std::int64_t num, RecomputePolicy of_rest)
      : first(of_first), rest(of_rest), num_first(num) {}

  RecomputePolicy first;
  RecomputePolicy rest;
  std::int64_t num_first = 0;
  // The inputs of all layers but the last are not on the device from forward to backward.
  bool inputs_on_host = false;
  // Smaller micro-batches have these instead. The list ascends by max_rows.
  std::vector<Smaller> smaller = {};

  const RecomputePolicy& of(std::int64_t layer) const { return layer < num_first ? first : rest; }
  // Those of a micro-batch of `num_rows` rows.
  LayerPolicies of_rows(std::int64_t num_rows) const;
  // One layer's, for all numbers of rows.
  RecomputeByRows by_rows(std::int64_t layer) const;
};

}  // namespace packtrain
