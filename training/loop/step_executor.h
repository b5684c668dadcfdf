// Executes one optimizer step on the device: forward and backward of this rank's micro-batches with
// the reduction of gradients, then the update. Nothing here waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/block/batch.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/loop/launched_step.h"
#include "training/loop/out_of_memory_recovery.h"
#include "training/loop/planned_run.h"
#include "training/loop/run_inputs.h"
#include "training/steps/example_loss_log.h"
#include "training/steps/hessian_batches.h"
#include "training/steps/optimizer_step.h"
#include "training/steps/reference_pass.h"
#include "training/steps/router_bias_update.h"
#include "training/steps/step_details.h"
#include "training/steps/step_graphs.h"
#include "training/steps/step_outcome.h"
#include "training/steps/step_timer.h"

namespace packtrain {

class StepExecutor {
 public:
  // Prepares the first step: measures costs and rehearses sizes as the configuration says
  // (step_preparation.h). Collective. All arguments must outlive the object.
  StepExecutor(const Config& config, const RunInputs& inputs, const PlannedRun& run,
               OutOfMemoryRecovery& recovery, World& world);

  // Forward and backward. A rank that has run out of memory computes nothing and joins the
  // collectives; the step's loss is then NaN. `loss_log`, or null: fetches the row losses for it.
  void compute(LaunchedStep& step, ExampleLossLog* loss_log);
  // The update of the weights. Afterwards the step's outcome is on its way to the host.
  // `bounds`: of each adapter, or one.
  void update(LaunchedStep& step, const StepRequests& requests,
              std::span<const RefusalBounds> bounds);

  // Trains on the Hessian batches of a step after its update(), updates the Hessian estimate, and
  // reads the outcome, for which it waits. A rank that runs out of memory joins, and nothing is
  // written on any rank. An outcome that requests out_of_memory comes from this or an earlier part
  // of the step. Collective.
  void update_hessian(const HessianBatches& hessian, LaunchedStep& step);

  // Waits for the device and frees the CUDA graphs. Later steps may have another layout.
  void release_graphs();
  StepTimer& timer() { return timer_; }

 private:
  // `rate`: optimizer.router_bias_update_rate.
  void update_router_biases(const DecoderConfig& decoder, double rate);
  // Also the passes of the reference.
  void join(const LaunchedStep& step);
  // The reference's log-probabilities for `batches`. False after out of memory.
  bool run_reference(const LaunchedStep& step, std::span<DeviceBatch> batches);
  void compute_by_graph(LaunchedStep& step);
  void compute_kernel_by_kernel(LaunchedStep& step, ExampleLossLog* loss_log);
  at::Tensor sum_details(std::span<const DeviceBatch> batches);
  void set_nan_loss(LaunchedStep& step);
  at::Tensor nan_loss() const;
  // This rank's loss of the batches; NaN after out of memory.
  at::Tensor train_hessian(const HessianBatches& hessian);

  Device& device_;
  ShardedModel& model_;
  OutOfMemoryRecovery& recovery_;
  StepDetails details_;
  ReferencePass reference_;
  OptimizerStep optimizer_step_;
  std::unique_ptr<RouterBiasUpdate> router_biases_;  // null: biases of routers do not change
  StepTimer timer_;
  std::array<StepOutcome, 2> outcomes_;  // used alternately: one may be in flight
  StepOutcome hessian_outcome_;
  std::unique_ptr<StepGraphs> graphs_;  // or none
};

}  // namespace packtrain
