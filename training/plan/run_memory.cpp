#include "training/plan/run_memory.h"

#include <iterator>
#include <string>

#include "framework/config/recompute.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "training/plan/gather_slots.h"
#include "training/plan/memory_fit.h"
#include "training/plan/near_configurations.h"
#include "training/plan/run_plan.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

const PlanEntry* newest_entry(const std::optional<ResumePoint>& resumed) {
  return resumed && !resumed->header.entries.empty() ? &resumed->header.entries.back() : nullptr;
}

// `auto` keeps the checkpoint's budget, because packs depend on it and must not change within a
// run.
std::int64_t budget_without_fit(const Config& config, const DecoderConfig& decoder,
                                const std::optional<ResumePoint>& resumed, const Device& device,
                                World& world) {
  const bool is_auto = !config.batch.max_tokens_per_micro_batch.has_value();
  const PlanEntry* newest = newest_entry(resumed);
  if (is_auto && newest != nullptr) {
    const std::int64_t tokens = newest->layout.max_tokens_per_micro_batch;
    check_kept_budget(config, decoder, tokens, resumed->folder, device, world);
    log_info("{} tokens a micro-batch, as in {}", tokens, resumed->folder);
    return newest->first_budget();
  }
  const TokenBudget budget = token_budget(config, decoder, device, world);
  if (budget.limit) {
    log_info("{} tokens a micro-batch, found for {:.2f} GiB a rank: {}", budget.tokens,
             to_gibibytes(budget.limit->bytes), budget.limit->basis);
  }
  return budget.tokens;
}

// The checkpoint's settings, with those that are set now in their place. Nothing when it has none.
std::optional<MemorySettings> kept_settings(const FitInput& input, const PlanEntry* newest) {
  if (newest == nullptr || !newest->fitted) return std::nullopt;
  const Config& config = input.config;
  MemorySettings kept{newest->fitted->recompute, newest->fitted->gather_slots,
                      newest->first_budget()};
  if (config.memory.recompute) kept.recompute = *config.memory.recompute;
  const auto slots =
      slots_without_limit(config.parallel, input.ranks.device, input.ranks.num_ranks);
  if (slots) kept.gather_slots = *slots;
  const auto tokens = config.batch.max_tokens_per_micro_batch;
  const bool may_stay = !tokens || (*tokens >= kept.max_tokens &&
                                    token_choices(config, input.ranks.num_ranks).size() > 1);
  if (!may_stay) kept.max_tokens = *tokens;
  kept.offload = config.memory.offload.value_or(newest->fitted->offload);
  return kept;
}

// Every rank has the same inputs. A difference is an error of the program.
void check_agreed(const MemorySettings& settings, World& world) {
  const std::int64_t mine[] = {settings.max_tokens,
                               settings.gather_slots,
                               settings.recompute.num_first,
                               settings.recompute.num_rows,
                               static_cast<std::int64_t>(settings.recompute.first),
                               static_cast<std::int64_t>(settings.recompute.rest),
                               static_cast<std::int64_t>(settings.offload)};
  constexpr std::size_t kCount = std::size(mine);
  std::int64_t most[2 * kCount];
  for (std::size_t i = 0; i < kCount; ++i) {
    most[i] = mine[i];
    most[kCount + i] = -mine[i];
  }
  world.control().all_reduce(most, std::size(most), DataType::kInt64, ReduceOp::kMax, nullptr);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (most[i] == -most[kCount + i]) continue;
    throw Error(ErrorCategory::kInternal,
                "memory.fit chose other settings on other ranks: here " + settings_text(settings));
  }
}

// A run that resumes does not change its budget where `auto` or packs found it.
void keep_budget(const PlanEntry* newest, Config& config) {
  if (newest == nullptr || config.batch.max_tokens_per_micro_batch) return;
  config.batch.max_tokens_per_micro_batch = newest->first_budget();
  config.memory.fit = MemoryFit::kKeepTokens;
}

MemorySettings choose(const FitInput& input, const std::optional<ResumePoint>& resumed,
                      World& world) {
  const std::optional<MemorySettings> kept = kept_settings(input, newest_entry(resumed));
  const bool logs = world.rank() == 0;
  if (kept) {
    const std::int64_t bytes = plan_with(input, *kept).total();
    if (bytes <= input.limit.with_reserve) {
      if (logs) log_info("memory.fit: {}, as in {}", settings_text(*kept), resumed->folder);
      return *kept;
    }
    if (logs) {
      log_warning(
          "memory.fit: {}, as in {}, needs {:.4g} GiB and a rank may use {:.4g}: it chooses "
          "again",
          settings_text(*kept), resumed->folder, to_gibibytes(bytes),
          to_gibibytes(input.limit.with_reserve));
    }
  }
  const std::optional<MemoryChoice> choice = fit_memory(input);
  if (!choice) throw no_fit(input);
  if (logs) log_info("{}", choice_text(*choice, input.limit));
  return choice->chosen.settings;
}

}  // namespace

RunMemory choose_run_memory(const Config& config, const DecoderConfig& decoder,
                            const TokenStore& store, const std::optional<ResumePoint>& resumed,
                            const Device& device, World& world) {
  if (!chooses_memory(config.memory, device.kind())) {
    return {budget_without_fit(config, decoder, resumed, device, world), {}};
  }
  MinFreeMemory free_memory = min_free_memory(config, device, world);
  FitInput input{config, decoder, free_memory.ranks, free_memory.limit,
                 step_work(config, &store, free_memory.ranks.num_ranks)};
  keep_budget(newest_entry(resumed), input.config);
  const MemorySettings settings = choose(input, resumed, world);
  check_agreed(settings, world);
  return {settings.max_tokens,
          FittedMemory{settings.recompute, settings.gather_slots, settings.offload}};
}

}  // namespace packtrain
