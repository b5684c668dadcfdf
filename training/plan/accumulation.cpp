#include "training/plan/accumulation.h"

#include <algorithm>

#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "training/plan/gather_slots.h"
#include "training/plan/memory_fit.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

constexpr std::int64_t kStepsLookedAt = 16;

// An upper limit, from the configuration alone: it is the same when a run resumes.
bool may_have_several(const AccumulationInput& input, int num_ranks) {
  const BatchSection& batch = input.config.batch;
  if (input.max_tokens < max_useful_tokens(input.config, num_ranks)) return true;
  return traits_of(batch.strategy).has_micro_batch_size &&
         batch.global_batch_size.value_or(0) > num_ranks * batch.micro_batch_size;
}

// Decides the cases that need no memory plan and no steps.
std::optional<Accumulate> without_limit(const AccumulationInput& input, int num_ranks,
                                        int shard_size, DeviceKind device) {
  const std::optional<Accumulate> given = input.config.parallel.accumulate;
  if (shard_size == 1 || !may_have_several(input, num_ranks)) return Accumulate::kShard;
  if (given) return given;
  const bool may_be_local =
      device == DeviceKind::kCuda && input.kept.value_or(Accumulate::kLocal) == Accumulate::kLocal;
  if (may_be_local) return std::nullopt;
  return Accumulate::kShard;
}

// For the cases that without_limit() leaves open.
bool wants_local(const AccumulationInput& input, const MicroBatchCounts& counts) {
  return input.kept || counts.most_have_several;
}

// Inputs of memory.fit with `accumulate`. The tokens stay: the plan was made with them.
FitInput fit_input(const AccumulationInput& input, Accumulate accumulate, double num_micro_batches,
                   const MemoryRanks& ranks, const MemoryLimit& limit) {
  FitInput fit{input.config, input.decoder, ranks, limit, input.work};
  fit.config.parallel.accumulate = accumulate;
  fit.config.batch.max_tokens_per_micro_batch = input.max_tokens;
  if (fit.config.memory.fit == MemoryFit::kAuto) fit.config.memory.fit = MemoryFit::kKeepTokens;
  fit.work.num_micro_batches = num_micro_batches;
  return fit;
}

StepTimeModel times_of(const FitInput& input) {
  return {input.config, input.decoder, input.ranks, input.work};
}

// With the settings that the run has already, within `bytes`.
bool fits(const FitInput& local, const MemorySettings& settings, std::int64_t bytes) {
  return plan_with(local, settings).total() <= bytes;
}

// memory.fit chooses for local sums too, and they are taken where that is faster. It has to be
// faster where communication is hidden too: links may be faster than the model's.
AccumulationChoice faster(const AccumulationInput& input, const MemorySettings& of_shard,
                          const FitInput& shard, const FitInput& local) {
  const std::optional<MemoryChoice> found = fit_memory(local);
  if (!found) return {Accumulate::kShard, input.fitted};
  const MemorySettings& of_local = found->chosen.settings;
  const StepTimeModel times = times_of(local);
  const StepTimeModel before = times_of(shard);
  const double seconds = times.seconds(of_local) + times.reduction_seconds(of_local);
  const bool is_faster = seconds < before.seconds(of_shard) + before.reduction_seconds(of_shard) &&
                         times.busy_seconds(of_local) < before.busy_seconds(of_shard);
  if (!is_faster) return {Accumulate::kShard, input.fitted};
  return {Accumulate::kLocal,
          FittedMemory{of_local.recompute, of_local.gather_slots, of_local.offload},
          choice_text(*found, local.limit)};
}

// `slots`: of a run without memory.fit.
AccumulationChoice within(const AccumulationInput& input, double num_micro_batches, int slots,
                          const MemoryRanks& ranks, const MemoryLimit& limit) {
  const FitInput shard = fit_input(input, Accumulate::kShard, num_micro_batches, ranks, limit);
  const FitInput local = fit_input(input, Accumulate::kLocal, num_micro_batches, ranks, limit);
  const MemorySection& memory = input.config.memory;
  MemorySettings settings{memory.recompute.value_or(Recompute::kNone), slots, input.max_tokens,
                          memory.offload.value_or(Offload::kNone)};
  if (input.fitted) {
    settings = {input.fitted->recompute, input.fitted->gather_slots, input.max_tokens,
                input.fitted->offload};
    if (!input.kept) return faster(input, settings, shard, local);
  }
  const auto share = static_cast<std::int64_t>(kSlotShare * static_cast<double>(limit.bytes));
  const bool is_local = fits(local, settings, input.kept ? limit.with_reserve : share);
  return {is_local ? Accumulate::kLocal : Accumulate::kShard, input.fitted};
}

void log_choice(const AccumulationInput& input, const AccumulationChoice& choice) {
  if (choice.accumulate == Accumulate::kLocal) {
    log_info("parallel.accumulate: local: each rank sums its gradients, which are reduced once{}{}",
             choice.fit.empty() ? "" : "\n", choice.fit);
  } else if (input.kept == Accumulate::kLocal && !input.config.parallel.accumulate) {
    log_warning("parallel.accumulate: local, as in the checkpoint, does not fit here: shard");
  }
}

}  // namespace

MicroBatchCounts count_micro_batches(const std::function<StepPlan(std::int64_t)>& plan,
                                     std::int64_t first_step, std::int64_t end_step) {
  const std::int64_t num_steps = std::min(kStepsLookedAt, end_step - first_step);
  if (num_steps <= 0) return {};
  std::int64_t num_several = 0;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < num_steps; ++i) {
    const auto count = static_cast<std::int64_t>(plan(first_step + i).num_micro_batches());
    num_several += count > 1 ? 1 : 0;
    sum += count;
  }
  return {static_cast<double>(sum) / static_cast<double>(num_steps), 2 * num_several >= num_steps};
}

AccumulationChoice choose_accumulation(const AccumulationInput& input, const Device& device,
                                       World& world) {
  const auto shard_size = static_cast<int>(input.config.parallel.shard_size.value());
  AccumulationChoice choice{Accumulate::kShard, input.fitted};
  const auto given = without_limit(input, data_parallel_size(world), shard_size, device.kind());
  if (given) {
    choice.accumulate = *given;
  } else if (const MicroBatchCounts counts = input.count(); wants_local(input, counts)) {
    const int slots = gather_slots(input.config, input.decoder, input.max_tokens, device, world);
    const MinFreeMemory free_memory = min_free_memory(input.config, device, world);
    choice = within(input, counts.mean, slots, free_memory.ranks, free_memory.limit);
  }
  if (world.rank() == 0) log_choice(input, choice);
  return choice;
}

AccumulationChoice assumed_accumulation(const AccumulationInput& input,
                                        const AssumedDevice& device) {
  const MemoryRanks& ranks = device.ranks;
  const int shard_size = ranks.shard_size > 0 ? ranks.shard_size : ranks.num_ranks;
  const auto given = without_limit(input, ranks.num_ranks, shard_size, ranks.device);
  if (given) return {*given, input.fitted};
  const MicroBatchCounts counts = input.count();
  if (!wants_local(input, counts)) return {Accumulate::kShard, input.fitted};
  const int slots = assumed_gather_slots(input.config, input.decoder, input.max_tokens, device);
  return within(input, counts.mean, slots, ranks,
                assumed_memory_limit(input.config.memory, device));
}

const char* name_of(Accumulate accumulate) {
  return accumulate == Accumulate::kLocal ? "local" : "shard";
}

}  // namespace packtrain
