// Handles a step whose memory runs out on some rank. That rank joins the remaining collectives of
// the step, and of the next one if it began before the others know. Its loss is NaN, so the device
// skips both updates on every rank. The outcomes inform all ranks, which lay the same optimizer
// batch over more micro-batches. Recovery adds no synchronization.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "framework/core/logging.h"
#include "framework/device/tensor_device.h"
#include "framework/device/tensor_memory.h"
#include "training/loop/trainer.h"
#include "training/saving/run_folder.h"

namespace packtrain {
namespace {

bool is_divisible(const MicroBatch& pieces) {
  int num_sequences = 0;
  for_each_sequence(pieces, [&](std::span<const Piece>, std::int32_t) { ++num_sequences; });
  return num_sequences > 1;
}

// True when the micro-batch, or any of them for -1, can be divided into smaller ones.
bool can_be_divided(const std::vector<MicroBatch>& micro_batches, int micro_batch) {
  if (micro_batch >= 0)
    return is_divisible(micro_batches.at(static_cast<std::size_t>(micro_batch)));
  return std::ranges::any_of(micro_batches, is_divisible);
}

Error cannot_fit(const std::vector<MicroBatch>& micro_batches, int micro_batch, std::int64_t number,
                 const OutOfMemory& error) {
  const auto index = static_cast<std::size_t>(std::max(micro_batch, 0));
  const MicroBatch& pieces = micro_batches.at(index);
  const std::string whose =
      pieces.empty() ? "a micro-batch without examples"
                     : fmt::format("example {}, {} tokens of it in a micro-batch of its own,",
                                   pieces.front().example, pieces.front().length);
  return {ErrorCategory::kDevice,
          fmt::format("step {}: {} does not fit: {}", number, whose, error.message()),
          "Lower data.max_length with data.too_long: truncate, split or drop, set "
          "memory.recompute: selective or full, or let more ranks share the model's state "
          "(parallel.shard_size, or more ranks); `packtrain plan` prints what each part needs."};
}

}  // namespace

bool Trainer::fits(const char* phase, const Pending& pending, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const c10::OutOfMemoryError& error) {
    discard_step(pending, OutOfMemory(phase, -1, 0, error.what()));
    return false;
  }
}

void Trainer::discard_step(const Pending& pending, const OutOfMemory& error) {
  const StepPlan& plan = pending.prepared.plan;
  const auto& mine = plan.ranks.at(static_cast<std::size_t>(plan_->mesh().data_parallel_rank()));
  if (!can_be_divided(mine, error.micro_batch())) {
    throw cannot_fit(mine, error.micro_batch(), plan.step + 1, error);
  }
  log_warning("step {} on rank {}: {}", plan.step + 1, world_.rank(), error.message());
  out_of_memory_ = error;
}

void Trainer::refuse(Pending& pending) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(tensor_device(*device_.device));
  model_->compute().run([&](StreamHandle) {
    pending.loss = at::full({}, std::numeric_limits<double>::quiet_NaN(), options);
    pending.details = num_details() > 0 ? at::zeros({num_details()}, options) : at::Tensor();
  });
}

std::int64_t Trainer::recover() {
  finish_all();
  const std::int64_t step = *dropped_;
  model_->compute().synchronize();
  batches_.reset();  // prepared for the old layout
  if (graphs_ != nullptr) graphs_->release();
  const std::int64_t budget = plan_->layout().max_tokens_per_micro_batch;
  const std::int64_t lowered = plan_->lower_budget(step);
  release_unused_tensor_memory(*device_.device);
  if (world_.rank() == 0) {
    log_warning(
        "step {}: {} of {} ranks ran out of memory: nothing of it was applied; from here on "
        "micro-batches have at most {} tokens instead of {}",
        step + 1, num_ranks_out_of_memory_, plan_->mesh().data_parallel_size(), lowered, budget);
    write_run_files(config_, *plan_);
  }
  make_batches(step);
  ++num_out_of_memory_;
  num_ranks_out_of_memory_ = 0;
  dropped_.reset();
  out_of_memory_.reset();
  watchdog_->enter(RunPhase::kStep, step + 1);
  clock_->restart();
  return step;
}

}  // namespace packtrain
