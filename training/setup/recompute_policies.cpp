#include "training/setup/recompute_policies.h"

#include "framework/config/offload.h"

namespace packtrain {
namespace {

RecomputePolicy recompute_policy(Recompute recompute) {
  switch (recompute) {
    case Recompute::kSelective:
      return RecomputePolicy::selective();
    case Recompute::kFull:
      return RecomputePolicy::full();
    case Recompute::kNone:
      break;
  }
  return RecomputePolicy::none();
}

}  // namespace

LayerPolicies layer_policies(const MemorySection& memory) {
  const RecomputeByLayer recompute = memory.recompute.value_or(Recompute::kNone);
  LayerPolicies policies = {recompute_policy(recompute.first), recompute.num_first,
                            recompute_policy(recompute.rest)};
  policies.inputs_on_host = offloads_activations(memory.offload);
  return policies;
}

}  // namespace packtrain
