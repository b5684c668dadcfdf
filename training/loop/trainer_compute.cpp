// Executes a step on the device, up to the gradients: as a CUDA graph or kernel by kernel.
#include <ATen/ops/cat.h>

#include "training/loop/trainer.h"
#include "training/steps/expert_load.h"
#include "training/steps/row_losses.h"
#include "training/steps/upload.h"

namespace packtrain {

void Trainer::compute_step(std::int64_t step, Pending& pending) {
  const std::vector<PackedBatch>& micro_batches = pending.prepared.micro_batches;
  faults_.before_compute(step + 1, micro_batches.size(), *model_);
  clock_->enter(StepPhase::kForward);
  if (out_of_memory_) {
    model_->join_step(micro_batches.size());
  } else if (graphs_ != nullptr && StepGraphs::serves(micro_batches)) {
    compute_by_graph(pending);
  } else {
    compute_kernel_by_kernel(pending);
  }
  if (out_of_memory_) refuse(pending);
  clock_->enter(StepPhase::kOptimizer);
  update(step, pending);
}

void Trainer::compute_by_graph(Pending& pending) {
  fits("the step's CUDA graph", pending, [&] {
    const StepGraphs::Trained trained = graphs_->train(pending.prepared.micro_batches.front());
    if (trained.out_of_memory) return discard_step(pending, *trained.out_of_memory);
    pending.loss = trained.loss;
    pending.details = step_details({&trained.batch, 1});
  });
}

void Trainer::compute_kernel_by_kernel(Pending& pending) {
  std::vector<DeviceBatch> batches;
  at::Tensor row_losses;
  const bool uploaded = fits("the upload of its batches", pending, [&] {
    model_->compute().run([&](StreamHandle) {
      for (const PackedBatch& batch : pending.prepared.micro_batches) {
        batches.push_back(upload(batch, *device_.device));
      }
      if (loss_log_ != nullptr || num_sources() > 1) row_losses = request_row_losses(batches);
    });
  });
  if (!uploaded) return model_->join_step(pending.prepared.micro_batches.size());
  const ShardedModel::Trained trained = model_->try_train(batches);
  if (trained.out_of_memory) return discard_step(pending, *trained.out_of_memory);
  pending.loss = trained.loss;
  fits("the sums of the step", pending, [&] {
    if (loss_log_ != nullptr) {
      model_->compute().run(
          [&](StreamHandle) { pending.row_losses = loss_log_->fetch(row_losses); });
    }
    pending.details = step_details(batches);
  });
}

at::Tensor Trainer::step_details(std::span<const DeviceBatch> batches) {
  at::Tensor details;
  if (num_details() == 0) return details;
  model_->compute().run([&](StreamHandle) {
    std::vector<at::Tensor> parts;
    if (num_sources() > 1) parts.push_back(sum_by_source(batches, num_sources()));
    if (num_load_numbers(source_.decoder) > 0) {
      parts.push_back(sum_expert_load(batches, source_.decoder));
    }
    details = at::cat(parts);
  });
  return details;
}

}  // namespace packtrain
