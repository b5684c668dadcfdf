#include "training/steps/batch_source.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "framework/device/range_recorder.h"
#include "framework/device/trace_range.h"
#include "training/steps/mismatched_answers.h"

namespace packtrain {
namespace {

constexpr std::size_t kStepsAhead = 3;

double sum_of_squares(const StepPlan& plan, const AttentionSpan& span) {
  double sum = 0;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      for_each_segment(pieces, [&](std::span<const Piece>, const AttentionSegment& segment) {
        sum += span.squares(segment);
      });
    }
  }
  return sum;
}

}  // namespace

HostBuffer HostBufferPool::take(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(unused_.begin(), unused_.end(),
                                   [&](const HostBuffer& buffer) { return buffer.size >= size; });
    if (fits != unused_.end()) {
      HostBuffer found = std::move(*fits);
      unused_.erase(fits);
      return found;
    }
  }
  return device_.allocate_host(size +
                               size / 4);  // a quarter more, because the next batch may be larger
}

void HostBufferPool::release(HostBuffer buffer) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(std::move(buffer));
}

BatchSource::BatchSource(const TokenStore& store, const Planner& planner, Device& device,
                         const BatchSourceOptions& options, std::int64_t first_step,
                         std::int64_t total_steps)
    : store_(store),
      planner_(planner),
      options_(options),
      total_steps_(total_steps),
      pool_(device),
      steps_(first_step, total_steps, kStepsAhead,
             [this](std::int64_t step) { return prepare(step); }) {}

PreparedStep BatchSource::next() {
  const RangeScope range("wait for the batch", {RangeKind::kThreadWait});
  const auto begin = std::chrono::steady_clock::now();
  PreparedStep step = steps_.take();
  wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return step;
}

// Runs once an epoch. Assigning next_epoch_ waits for the previous task, which has usually ended.
void BatchSource::prepare_next_epoch(const StepPlan& plan) {
  if (plan.epoch == newest_epoch_) return;
  newest_epoch_ = plan.epoch;
  if (planner_.epoch_end(plan.step) >= total_steps_) return;
  next_epoch_ = std::async(std::launch::async,
                           [this, next = plan.epoch + 1] { planner_.prepare_epoch(next); });
}

PreparedStep BatchSource::prepare(std::int64_t step) {
  set_thread_row("data");
  const TraceRange range("batch of step " + std::to_string(step + 1));
  PreparedStep prepared;
  prepared.plan = planner_.plan(step);
  prepare_next_epoch(prepared.plan);
  CollatorOptions collator_options;
  collator_options.sources = options_.sources;
  collator_options.label_weights = &label_weights_;
  collator_options.reference = options_.reference;
  if (options_.dropout_seed) {
    collator_options.row_seeds =
        CounterRandom(*options_.dropout_seed, "dropout", static_cast<std::uint64_t>(step));
  }
  const Collator collate = find_collator(planner_.options().strategy);
  prepared.statistics =
      plan_statistics(prepared.plan, options_.cost, options_.max_tokens_per_micro_batch,
                      collator_options.row_multiple,
                      traits_of(planner_.options().strategy).pads_to_longest, options_.speeds);
  prepared.attention_squares = sum_of_squares(prepared.plan, options_.cost.span);
  const LossNormalization normalization = loss_normalization(prepared.plan, options_.normalize);
  const HostAllocator allocate = [&](std::size_t size) {
    prepared.buffers.push_back(pool_.take(size));
    return std::span<std::byte>(prepared.buffers.back().data, size);
  };
  for (const MicroBatch& pieces : prepared.plan.ranks[options_.rank]) {
    prepared.micro_batches.push_back(
        collate(store_, pieces, normalization, collator_options, allocate));
  }
  if (options_.mismatched_seed) prepared.mismatched = mismatched_of(prepared.plan, allocate);
  if (options_.hessian && hessian_is_due(*options_.hessian, step)) {
    prepared.hessian =
        hessian_batches(store_, planner_, step, hessian_options(), &label_weights_, allocate);
  }
  return prepared;
}

HessianBatchOptions BatchSource::hessian_options() const {
  return {.settings = *options_.hessian,
          .rank = options_.rank,
          .normalize = options_.normalize,
          .dropout_seed = options_.dropout_seed};
}

std::optional<HessianBatches> BatchSource::hessian_of(std::int64_t step) const {
  return hessian_batches(store_, planner_, step, hessian_options(), /*label_weights=*/nullptr);
}

std::vector<PackedBatch> BatchSource::mismatched_of(const StepPlan& plan,
                                                    const HostAllocator& allocate) const {
  return mismatched_batches(store_, shuffled_examples(plan, *options_.mismatched_seed),
                            {.max_length = options_.max_length,
                             .max_tokens = options_.max_tokens_per_micro_batch,
                             .num_ranks = static_cast<int>(plan.ranks.size()),
                             .rank = options_.rank},
                            allocate);
}

void BatchSource::recycle(PreparedStep step) {
  for (HostBuffer& buffer : step.buffers) pool_.release(std::move(buffer));
}

double BatchSource::take_wait_s() {
  return std::exchange(wait_s_, 0.0);
}

}  // namespace packtrain
