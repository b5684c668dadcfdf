// One pass over a flat shard of an update that keeps one moment or none: the two passes of Muon
// (muon.h), and Lion (lion.h). Computes in float32. A bfloat16 moment is rounded stochastically, as
// AdamW's are (adamw.h), after it is used. The largest magnitude of a range's weights is found as
// they are written. Deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>

#include "training/optimizers/moment_arguments.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {

struct MomentOptions {
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  std::array<double, kNumOptimizerGroups> weight_decay = {};  // of each group
  std::int64_t step = 1;                                      // from 1
  std::uint64_t seed = 0;                                     // of stochastic rounding
};

// Updates `part` by `rule`. Its state is one tensor, the moment, float32 or bfloat16; kMuonWeights
// does not read it. kMuonMomentum writes part.grad. `ranges` and the scalars of `update` are those
// of adamw(). Throws Error(kInternal) for tensors or ranges that do not fit.
void moment_update(MomentRule rule, const ShardPart& part, std::span<const ShardRange> ranges,
                   const MomentOptions& options, const UpdateOptions& update);

}  // namespace packtrain
