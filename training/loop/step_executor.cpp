#include "training/loop/step_executor.h"

#include <ATen/ops/full.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "framework/config/objective_settings.h"
#include "framework/device/tensor_device.h"
#include "models/objectives/make_objective.h"
#include "training/loop/step_preparation.h"
#include "training/steps/row_losses.h"
#include "training/steps/upload.h"

namespace packtrain {

namespace {

std::vector<OptimizerSection> optimizer_sections(const RunInputs& inputs) {
  std::vector<OptimizerSection> sections;
  for (const Config& own : inputs.stores.configs) sections.push_back(own.optimizer);
  return sections;
}

}  // namespace

StepExecutor::StepExecutor(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                           OutOfMemoryRecovery& recovery, World& world)
    : device_(*inputs.device.device),
      model_(*run.model),
      recovery_(recovery),
      details_(*inputs.stores.all, inputs.source.decoder, make_objective(config.objective)),
      reference_(model_, run.reference.forward(model_), has_divergence(config.objective)),
      optimizer_step_(model_, optimizer_sections(inputs), config.run.seed),
      timer_(device_, model_.compute()),
      outcomes_{StepOutcome(device_, details_.size(), details_.num_adapters()),
                StepOutcome(device_, details_.size(), details_.num_adapters())},
      hessian_outcome_(device_, kNumHessianDetails) {
  update_router_biases(inputs.source.decoder, config.optimizer.router_bias_update_rate);
  prepare_costs(inputs, run, world);
  prepare_sizes(config, inputs, run, world);
  if (uses_graphs(config, inputs, run, world)) {
    graphs_ = std::make_unique<StepGraphs>(model_, device_, details_.needs_row_losses());
    return;  // a graph would capture the calls that record times
  }
  model_.watch_compute([this](ActionKind kind) {
    timer_.enter(kind == ActionKind::kForward ? StepPhase::kForward : StepPhase::kBackward);
  });
}

void StepExecutor::update_router_biases(const DecoderConfig& decoder, double rate) {
  if (rate == 0) return;
  router_biases_ = std::make_unique<RouterBiasUpdate>(model_, decoder, rate);
  optimizer_step_.before_update([this](const at::Tensor& outcome) {
    const at::Tensor skipped = outcome.select(0, offsetof(StepReport, skipped) / sizeof(float));
    const at::Tensor details = outcome.slice(0, kNumReported);
    router_biases_->run(details_.expert_tokens(details), skipped);
  });
}

void StepExecutor::compute(LaunchedStep& step, ExampleLossLog* loss_log) {
  const std::vector<PackedBatch>& micro_batches = step.prepared.micro_batches;
  timer_.enter(StepPhase::kForward);
  if (recovery_.is_discarding()) {
    join(step);
  } else if (graphs_ != nullptr && StepGraphs::serves(micro_batches)) {
    compute_by_graph(step);
  } else {
    compute_kernel_by_kernel(step, loss_log);
  }
  if (recovery_.is_discarding()) set_nan_loss(step);
  timer_.enter(StepPhase::kOptimizer);
}

void StepExecutor::join(const LaunchedStep& step) {
  reference_.join(step.prepared.micro_batches.size(), step.prepared.mismatched.size());
  model_.join_step(step.prepared.micro_batches.size());
}

bool StepExecutor::run_reference(const LaunchedStep& step, std::span<DeviceBatch> batches) {
  if (!reference_.is_needed()) return true;
  const StepPlan& plan = step.prepared.plan;
  std::vector<DeviceBatch> mismatched;
  const bool uploaded = recovery_.try_run("the upload of mismatched answers", plan, [&] {
    model_.compute().run([&](StreamHandle) {
      for (const PackedBatch& batch : step.prepared.mismatched) {
        mismatched.push_back(upload(batch, device_));
      }
    });
  });
  if (!uploaded) {
    join(step);
    return false;
  }
  const auto failure = reference_.run(batches, mismatched, plan.num_examples);
  if (!failure) return true;
  recovery_.discard(plan, *failure);
  model_.join_step(batches.size());
  return false;
}

void StepExecutor::compute_by_graph(LaunchedStep& step) {
  const StepPlan& plan = step.prepared.plan;
  recovery_.try_run("the step's CUDA graph", plan, [&] {
    const StepGraphs::Trained trained = graphs_->train(step.prepared.micro_batches.front());
    if (trained.out_of_memory) return recovery_.discard(plan, *trained.out_of_memory);
    step.loss = trained.loss;
    step.details = sum_details({&trained.batch, 1});
  });
}

void StepExecutor::compute_kernel_by_kernel(LaunchedStep& step, ExampleLossLog* loss_log) {
  const StepPlan& plan = step.prepared.plan;
  std::vector<DeviceBatch> batches;
  at::Tensor row_losses;
  const bool uploaded = recovery_.try_run("the upload of its batches", plan, [&] {
    model_.compute().run([&](StreamHandle) {
      for (const PackedBatch& batch : step.prepared.micro_batches) {
        batches.push_back(upload(batch, device_));
      }
    });
  });
  if (!uploaded) return join(step);
  if (!run_reference(step, batches)) return;
  const bool requested = recovery_.try_run("the row losses", plan, [&] {
    if (loss_log == nullptr && !details_.needs_row_losses()) return;
    model_.compute().run([&](StreamHandle) { row_losses = request_row_losses(batches); });
  });
  if (!requested) return model_.join_step(batches.size());
  const PassResult trained = model_.try_train(batches);
  if (trained.out_of_memory) return recovery_.discard(plan, *trained.out_of_memory);
  step.loss = trained.loss;
  recovery_.try_run("the sums of the step", plan, [&] {
    if (loss_log != nullptr) {
      model_.compute().run([&](StreamHandle) { step.row_losses = loss_log->fetch(row_losses); });
    }
    step.details = sum_details(batches);
  });
}

at::Tensor StepExecutor::sum_details(std::span<const DeviceBatch> batches) {
  at::Tensor sums;
  if (details_.size() == 0) return sums;
  model_.compute().run([&](StreamHandle) { sums = details_.sum(batches); });
  return sums;
}

void StepExecutor::set_nan_loss(LaunchedStep& step) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(tensor_device(device_));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t num_details = details_.size();
  step.loss = nan_loss();
  model_.compute().run([&](StreamHandle) {
    step.details = num_details > 0 ? at::full({num_details}, kNan, options) : at::Tensor();
  });
}

at::Tensor StepExecutor::nan_loss() const {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(tensor_device(device_));
  at::Tensor loss;
  model_.compute().run([&](StreamHandle) {
    loss = at::full({}, std::numeric_limits<double>::quiet_NaN(), options);
  });
  return loss;
}

void StepExecutor::update(LaunchedStep& step, const StepRequests& requests,
                          std::span<const RefusalBounds> bounds) {
  const std::int64_t number = step.prepared.plan.step + 1;
  step.outcome = &outcomes_.at(static_cast<std::size_t>(number) % outcomes_.size());
  std::vector<UpdateStep> updates;
  for (std::size_t a = 0; a < bounds.size(); ++a) {
    updates.push_back({step.learning_rates.at(a), bounds[a]});
  }
  const bool before_hessian = step.prepared.hessian.has_value();
  optimizer_step_.run(step.loss, updates, number, requests, *step.outcome, step.details,
                      before_hessian);
  if (before_hessian) return;  // update_hessian() ends the step
  timer_.end_step();
  step.waited = model_.compute().take_waited();
}

at::Tensor StepExecutor::train_hessian(const HessianBatches& hessian) {
  if (recovery_.is_discarding()) {
    model_.join_step(hessian.micro_batches.size());
    return nan_loss();
  }
  std::vector<DeviceBatch> batches;
  const bool uploaded = recovery_.try_run("the upload of its Hessian batches", hessian.plan, [&] {
    model_.compute().run([&](StreamHandle) {
      for (const PackedBatch& batch : hessian.micro_batches) {
        batches.push_back(upload(batch, device_));
      }
    });
  });
  if (!uploaded) {
    model_.join_step(hessian.micro_batches.size());
    return nan_loss();
  }
  const PassResult trained = model_.try_train(batches);
  if (!trained.out_of_memory) return trained.loss;
  recovery_.discard(hessian.plan, *trained.out_of_memory);
  return nan_loss();
}

void StepExecutor::update_hessian(const HessianBatches& hessian, LaunchedStep& step) {
  timer_.enter(StepPhase::kForward);
  const at::Tensor loss = train_hessian(hessian);
  timer_.enter(StepPhase::kOptimizer);
  optimizer_step_.run_hessian(loss, hessian.num_tokens, step.prepared.plan.step + 1,
                              {.out_of_memory = recovery_.is_discarding()}, hessian_outcome_);
  timer_.end_step();
  step.waited = model_.compute().take_waited();
  step.hessian = hessian_outcome_.read();
}

void StepExecutor::release_graphs() {
  model_.compute().synchronize();
  if (graphs_ != nullptr) graphs_->release();
}

}  // namespace packtrain
