// Runs a model on batches and reads back the losses of rows and all gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collators/packed_batch.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"

namespace packtrain {

// The part of a parameter's gradient that a rank owns.
struct OwnedGradient {
  std::string parameter;
  std::int64_t begin = 0;  // first owned element of the flattened parameter
  at::Tensor values;       // float32 [n], on the host
  std::int64_t row_numel = 1;
  std::vector<ParameterPart> parts = {};  // of the whole parameter
};

struct Measured {
  double loss = 0;                             // sum of weight * loss over all batches given
  std::vector<std::vector<float>> row_losses;  // [batches][num_loss_tokens], unweighted
  std::vector<OwnedGradient> gradients;
};

// Forward and backward of the batches as micro-batches of one step. Collective over the model's
// ranks. Loss and rows are this rank's. Gradients are summed over ranks.
Measured measure_step(ShardedModel& model, const Device& device,
                      std::span<const PackedBatch* const> batches);

// The rows' unweighted losses [num_loss_tokens], by a forward only. Collective.
std::vector<float> measure_rows(ShardedModel& model, const Device& device,
                                const PackedBatch& batch);

// The whole model on this rank's device, without other ranks.
class SingleRankModel {
 public:
  SingleRankModel(const Config& config, const ModelSource& source, const RunDevice& device);
  ShardedModel& model() { return *model_; }

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<ShardedModel> model_;
};

}  // namespace packtrain
