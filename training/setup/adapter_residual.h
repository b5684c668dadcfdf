// The frozen weights under an adapter of PiSSA are residuals. A residual is W - scale B A with the
// initial values of A and B. Checkpoints hold these values as parameters of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/layers/adapter_targets.h"
#include "parallel/sharding/shard_view.h"
#include "parallel/sharding/sharded_model.h"
#include "training/setup/model_source.h"

namespace packtrain {

// Initial values of the adapter of one weight: float32 on the CPU.
struct InitialUpdate {
  at::Tensor a;               // [total_rank, inputs]
  std::vector<at::Tensor> b;  // of each module: [num_rows, rank]
};

// Reads those of `weight` from a checkpoint. Throws as load_checkpoint().
InitialUpdate read_initial_update(const std::string& checkpoint, const std::string& weight,
                                  const AdapterTargets& targets, std::int64_t inputs);

// Replaces a part of a loaded weight W by the same part of the residual. The difference is computed
// in float32. It is rounded or quantised as `shard` is stored. `first_values`: W in float32, whole
// and not in use elsewhere. It is called when the shard is encoded.
void subtract_initial(const LoraModules& modules, const InitialUpdate& initial,
                      const ShardView& shard, const std::function<at::Tensor()>& first_values);

// The whole residual as products read it: float32 [spec.shape], of the weight that the source has
// for `spec`.
at::Tensor residual_values(const ModelSource& source, std::uint64_t seed, const ParameterSpec& spec,
                           const LoraModules& modules, const InitialUpdate& initial);

// Throws Error(kCheckpoint) when the adapter of the checkpoint is of PiSSA and that of `source` is
// not, or the reverse. The weights under them differ.
void check_same_residual(const ModelSource& source, const std::string& checkpoint);

// Initial values of this rank's parts of A and B: shards on the CPU, with the names that
// checkpoints have for them.
std::vector<ShardView> copy_initial_values(ShardedModel& model);

// Fills this rank's part of frozen weights that `model`, of `source` and `seed`, has just loaded,
// with the residuals of the initial values in `checkpoint`. Returns the part of these values that
// the rank owns, as copy_initial_values(). Nothing is done for other adapters. Throws as
// load_checkpoint().
std::vector<ShardView> subtract_saved_values(const std::string& checkpoint,
                                             const ModelSource& source, std::uint64_t seed,
                                             ShardedModel& model);

}  // namespace packtrain
