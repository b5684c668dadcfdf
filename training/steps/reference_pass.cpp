#include "training/steps/reference_pass.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "framework/device/trace_range.h"
#include "training/steps/row_losses.h"

namespace packtrain {
namespace {

void end_request(DeviceBatch& batch) {
  batch.row_losses = at::Tensor();
  batch.only_row_losses = false;
  batch.without_adapter = false;
  batch.state.routing.reset();  // counts of the other forward
}

// Runs an allocation. Keeps that memory ran out.
template <class Work>
void attempt(std::optional<OutOfMemory>& failure, const char* phase, const Work& work) {
  if (failure) return;
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    failure = OutOfMemory(phase, -1, 0, error.what());
  }
}

}  // namespace

at::Tensor request_log_probs(std::span<DeviceBatch> batches, bool without_adapter) {
  at::Tensor losses = request_row_losses(batches);
  for (DeviceBatch& batch : batches) {
    batch.only_row_losses = true;
    batch.without_adapter = without_adapter;
  }
  return losses;
}

void keep_as_reference(std::span<DeviceBatch> batches, bool without_adapter) {
  for (DeviceBatch& batch : batches) {
    batch.groups.reference = batch.row_losses.neg();
    end_request(batch);
    batch.without_adapter = without_adapter;
  }
}

void set_no_reference(std::span<DeviceBatch> batches) {
  for (DeviceBatch& batch : batches) {
    if (!batch.groups.is_defined()) continue;
    batch.groups.reference = at::zeros_like(batch.loss_weight);
    batch.groups.kl = at::zeros({}, batch.loss_weight.options());
  }
}

ReferencePass::ReferencePass(ShardedModel& policy, const ReferenceModel& reference,
                             bool has_divergence)
    : policy_(policy), reference_(reference), has_divergence_(has_divergence) {
  if (!has_divergence_) return;
  policy_.compute().run([&](StreamHandle) {
    divergence_ =
        at::zeros({1}, at::TensorOptions(at::kFloat).device(policy_.parameters().state().device));
    sum_scratch_ = policy_.ranks().sum_scratch(divergence_);
  });
}

void ReferencePass::sum_divergence() {
  policy_.ranks().sum(divergence_, policy_.compute(), sum_scratch_);
}

at::Tensor ReferencePass::sum_of(ShardedModel& model, bool without_adapter,
                                 std::span<DeviceBatch> batches,
                                 std::optional<OutOfMemory>& failure) {
  at::Tensor losses;
  attempt(failure, "the upload of the divergence's batches", [&] {
    policy_.compute().run(
        [&](StreamHandle) { losses = request_log_probs(batches, without_adapter); });
  });
  if (failure) {
    model.join_evaluation(batches.size());
    return {};
  }
  PassResult result = model.try_evaluate(batches);
  // The index is of other micro-batches than the step's.
  if (result.out_of_memory) {
    failure =
        OutOfMemory("the divergence from the reference", -1, 0, result.out_of_memory->message());
    return {};
  }
  at::Tensor sum;
  attempt(failure, "the divergence's sum", [&] {
    policy_.compute().run([&](StreamHandle) {
      sum = losses.sum(at::kDouble);
      std::ranges::for_each(batches, end_request);
    });
  });
  return sum;
}

std::optional<OutOfMemory> ReferencePass::run(std::span<DeviceBatch> batches,
                                              std::span<DeviceBatch> mismatched,
                                              std::int64_t num_mismatched) {
  const at::NoGradGuard no_grad;
  const TraceRange range("reference");
  std::optional<OutOfMemory> failure;
  if (reference_.model != nullptr) {
    attempt(failure, "the reference's losses", [&] {
      policy_.compute().run(
          [&](StreamHandle) { request_log_probs(batches, reference_.without_adapter); });
    });
    if (failure) {
      reference_.model->join_evaluation(batches.size());
    } else {
      failure = reference_.model->try_evaluate(batches).out_of_memory;
    }
    attempt(failure, "the reference's log-probabilities",
            [&] { policy_.compute().run([&](StreamHandle) { keep_as_reference(batches); }); });
  }
  if (!has_divergence_) return failure;
  const at::Tensor policy = sum_of(policy_, false, mismatched, failure);
  const at::Tensor reference =
      sum_of(*reference_.model, reference_.without_adapter, mismatched, failure);
  attempt(failure, "the divergence's difference", [&] {
    policy_.compute().run([&](StreamHandle) { divergence_.copy_(reference.sub(policy)); });
  });
  sum_divergence();
  attempt(failure, "the divergence's mean", [&] {
    policy_.compute().run([&](StreamHandle) {
      divergence_.div_(static_cast<double>(std::max<std::int64_t>(num_mismatched, 1)));
      for (DeviceBatch& batch : batches) batch.groups.kl = divergence_.squeeze();
    });
  });
  return failure;
}

void ReferencePass::join(std::size_t num_batches, std::size_t num_mismatched_batches) {
  if (reference_.model != nullptr) reference_.model->join_evaluation(num_batches);
  if (!has_divergence_) return;
  policy_.join_evaluation(num_mismatched_batches);
  reference_.model->join_evaluation(num_mismatched_batches);
  sum_divergence();
}

}  // namespace packtrain
