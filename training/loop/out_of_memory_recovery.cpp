#include "training/loop/out_of_memory_recovery.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "framework/config/objective_settings.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/device/tensor_memory.h"
#include "training/saving/run_folder.h"
#include "training/steps/mismatched_answers.h"

namespace packtrain {
namespace {

bool is_divisible(const MicroBatch& pieces) {
  int num_units = 0;
  for_each_unit(pieces, [&](std::span<const Piece>) { ++num_units; });
  return num_units > 1;
}

bool any_is_divisible(const StepPlan& step, int rank) {
  return !step.ranks.empty() &&
         std::ranges::any_of(step.ranks.at(static_cast<std::size_t>(rank)), is_divisible);
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

bool OutOfMemoryRecovery::try_run(const char* phase, const StepPlan& step,
                                  const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const c10::OutOfMemoryError& error) {
    discard(step, OutOfMemory(phase, -1, 0, error.what()));
    return false;
  }
}

void OutOfMemoryRecovery::discard(const StepPlan& step, const OutOfMemory& error) {
  const int rank = plan_.mesh().data_parallel_rank();
  const auto& mine = step.ranks.at(static_cast<std::size_t>(rank));
  const int micro_batch = error.micro_batch();  // -1: of any of them, or of mismatched answers
  const bool can_be_divided =
      micro_batch >= 0
          ? is_divisible(mine.at(static_cast<std::size_t>(micro_batch)))
          : any_is_divisible(step, rank) || any_is_divisible(mismatched_of(step), rank);
  if (!can_be_divided) throw cannot_fit(mine, micro_batch, step.step + 1, error);
  log_warning("step {} on rank {}: {}", step.step + 1, world_.rank(), error.message());
  own_ = error;
}

StepPlan OutOfMemoryRecovery::mismatched_of(const StepPlan& step) const {
  if (!has_divergence(config_.objective)) return {};
  return mismatched_plan(store_, shuffled_examples(step, config_.run.seed),
                         {.max_length = config_.data.max_length,
                          .max_tokens = plan_.layout().max_tokens_per_micro_batch,
                          .num_ranks = static_cast<int>(step.ranks.size())});
}

bool OutOfMemoryRecovery::is_discarded(const StepPlan& step, const StepOutcome::Values& values) {
  num_ranks_ = std::max(num_ranks_, values.num_ranks_out_of_memory);
  if (!first_discarded_ && values.requests.out_of_memory) first_discarded_ = step.step;
  return first_discarded_.has_value();
}

std::int64_t OutOfMemoryRecovery::lower_budget(bool is_applied) {
  const std::int64_t step = *first_discarded_;
  const std::int64_t budget = plan_.layout().max_tokens_per_micro_batch;
  const std::int64_t lowered = plan_.lower_budget(step, mismatched_of(plan_.planner().plan(step)));
  release_unused_tensor_memory(device_);
  if (world_.rank() == 0) {
    log_warning(
        "step {}: {} of {} ranks ran out of memory: nothing of {} was applied; from here on "
        "micro-batches have at most {} tokens instead of {}",
        step + 1, num_ranks_, plan_.mesh().data_parallel_size(),
        is_applied ? "its Hessian estimate" : "it", lowered, budget);
    write_run_files(config_, plan_);
  }
  ++num_recoveries_;
  num_ranks_ = 0;
  first_discarded_.reset();
  own_.reset();
  return step;
}

}  // namespace packtrain
