#include "models/decoder/layer_policies.h"

#include <algorithm>

namespace packtrain {

LayerPolicies LayerPolicies::of_rows(std::int64_t num_rows) const {
  const auto found = std::ranges::lower_bound(smaller, num_rows, {}, &Smaller::max_rows);
  LayerPolicies policies = found == smaller.end()
                               ? LayerPolicies(first, num_first, rest)
                               : LayerPolicies(found->first, found->num_first, found->rest);
  policies.inputs_on_host = inputs_on_host;
  return policies;
}

RecomputeByRows LayerPolicies::by_rows(std::int64_t layer) const {
  RecomputeByRows policies = of(layer);
  for (const Smaller& of_size : smaller) {
    const RecomputePolicy& policy = layer < of_size.num_first ? of_size.first : of_size.rest;
    policies.smaller.push_back({of_size.max_rows, policy});
  }
  return policies;
}

}  // namespace packtrain
