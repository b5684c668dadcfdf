// The end of an optimizer step: global norm, clipping, the update of the flat shard. Nothing here
// waits for the device. A StepOutcome (step_outcome.h) reads loss and norm when they have arrived.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/sharding/state_stream.h"
#include "training/optimizers/optimizer.h"
#include "training/steps/factored_moments.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

// The update of one adapter of several, or of all that is trained.
struct UpdateStep {
  double learning_rate = 0;
  RefusalBounds bounds = {};
};

// Details of run_hessian(), over all ranks: elements that the latest update did not clip, and all.
inline constexpr std::int64_t kNumHessianDetails = 2;

class OptimizerStep {
 public:
  // `options`: of each adapter, where several are trained together, else one element. `seed`: for
  // the stochastic rounding of bfloat16 moments.
  // `slot_bytes`: at most, of a piece of state that is streamed from host memory
  // (ShardingOptions::offload_state). Allocates the slots of the pieces.
  OptimizerStep(ShardedModel& model, std::span<const OptimizerSection> options, std::uint64_t seed,
                std::int64_t slot_bytes = kStateSlotBytes);

  // Called in each run(), on the compute stream, before weights are updated, with
  // StepScalars::outcome over all ranks.
  void before_update(std::function<void(const at::Tensor& outcome)> hook) {
    before_update_ = std::move(hook);
  }

  // Applies one update from the gradients of ShardedModel::train. `loss`: this rank's. `number`:
  // optimizer steps including this one, from 1. Collective. A step whose loss or norm is not finite
  // or exceeds its bound writes nothing on any rank. `details`: float32 [n], summed over the ranks
  // with the loss; undefined for none.
  // `updates`: one for each element of the constructor's options. Several adapters have norm,
  // clipping and skipping of their own. `details` then begins with this rank's loss of each.
  // `before_hessian`: run_hessian() of the same step follows.
  void run(const at::Tensor& loss, std::span<const UpdateStep> updates, std::int64_t number,
           const StepRequests& requests, StepOutcome& outcome, const at::Tensor& details = {},
           bool before_hessian = false);

  // Updates the estimate after run() of step `number`, from the gradients of ShardedModel::train of
  // Hessian batches (hessian_batches.h) with `num_tokens` labels over all ranks. `loss`: this
  // rank's. Collective. Writes nothing on any rank where that step was skipped, or where the loss
  // or the norm of these gradients is not finite. The outcome has kNumHessianDetails details.
  void run_hessian(const at::Tensor& loss, double num_tokens, std::int64_t number,
                   const StepRequests& requests, StepOutcome& outcome);

 private:
  // Settings of one ParameterSpec::optimizer.
  struct Group {
    std::unique_ptr<Optimizer> optimizer;
    double rate_ratio = 1;  // its learning rate / that of the step
  };
  struct Optimized {
    std::vector<Group> groups;  // by ParameterSpec::optimizer
    double max_grad_norm = 0;
  };
  // What one call of Optimizer::update changes. Ranges are relative to its begin.
  struct Part {
    int unit = 0;  // the first one of several
    int last_unit = 0;
    bool ends_unit = false;
    int adapter = 0;
    int optimizer = 0;
    std::int64_t begin = 0;
    std::int64_t numel = 0;
    std::size_t weight_buffer = 0;
    std::int64_t weight_begin = 0;
    std::vector<ShardRange> ranges = {};
    // Views; the gradient's is set at each pass. Those in host memory are replaced by copies then.
    ShardPart tensors = {};
    bool master_on_host = false;
  };
  // `tensors`: those of the part, on the device.
  using PartWork = std::function<void(const Part& part, const ShardPart& tensors)>;

  bool extends(const Part& part, const OptimizerRange& range) const;
  void add(const OptimizerRange& range);
  void make_views(Part& part) const;
  void make_stream();
  // The most elements of a part of the adapter and optimizer: what a slot of the stream takes.
  std::int64_t most_elements(int adapter, int optimizer) const;
  bool is_in(UpdatePass pass, const Part& part) const;
  StreamedPiece streamed(UpdatePass pass, const Part& part) const;
  StreamedPieces streamed_parts(UpdatePass pass) const;
  // Calls `work` with each part of the pass, in their order, on the compute stream.
  void for_each_part(UpdatePass pass, const PartWork& work);
  const Group& group_of(const Part& part) const {
    return optimized_.at(part.adapter).groups.at(part.optimizer);
  }
  at::Tensor squares_by_adapter();
  // The outcome of the step, and the scalars of each adapter.
  at::Tensor sum_up(const at::Tensor& loss, std::span<const UpdateStep> updates,
                    const StepRequests& requests, const at::Tensor& details,
                    std::vector<StepScalars>& scalars);
  at::Tensor sum_up_adapters(const at::Tensor& loss, std::span<const UpdateStep> updates,
                             const StepRequests& requests, const at::Tensor& details,
                             std::vector<StepScalars>& scalars);
  void count_estimated();
  // Keeps what run_hessian() needs of a step. `skip`: uint8 [].
  void begin_counts(const at::Tensor& skip);
  // Float32 [kNumHessianDetails], of this rank.
  at::Tensor unclipped_details() const;
  void update(std::span<const UpdateStep> updates, std::int64_t number,
              std::span<const StepScalars> scalars);
  // True when an optimizer needs whole matrices of the parameter.
  bool is_orthogonalised(const ParameterSpec& parameter) const;
  void make_exchange();
  void make_factored();
  void factor(std::span<const UpdateStep> updates, std::int64_t number,
              std::span<const StepScalars> scalars);
  void orthogonalise(std::span<const UpdateStep> updates, std::int64_t number,
                     std::span<const StepScalars> scalars);
  UpdateOptions options_of(const Part& part, std::span<const UpdateStep> updates,
                           std::int64_t number, std::span<const StepScalars> scalars) const;
  void update_part(const Part& part, const ShardPart& tensors, const UpdateOptions& options,
                   bool by_unit);

  ShardedModel& model_;
  std::int64_t slot_bytes_;
  std::vector<Optimized> optimized_;  // by adapter
  std::vector<Part> parts_;
  std::unique_ptr<FactoredMoments> factored_;      // null: no optimizer has factored moments
  std::unique_ptr<StateStream> stream_;            // null: the state is on the device
  std::map<UpdatePass, StreamedPieces> streamed_;  // else what each pass streams
  std::unique_ptr<MatrixExchange> matrices_;       // null: no optimizer needs any
  // Elements of this rank whose optimizer has a Hessian estimate, and gaps between them.
  std::int64_t num_estimated_ = 0;
  std::int64_t num_gaps_ = 0;
  // From run() to run_hessian(): whether the step was skipped, uint8 [], and
  // UpdateOptions::num_unclipped. Else undefined.
  at::Tensor skipped_;
  at::Tensor num_unclipped_;
  std::function<void(const at::Tensor& outcome)> before_update_;
};

}  // namespace packtrain
