#include "training/plan/memory_fit.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "collators/batch_builder.h"
#include "framework/config/offload.h"
#include "framework/config/recompute.h"
#include "framework/core/error.h"
#include "framework/core/math.h"
#include "training/plan/gather_slots.h"
#include "training/plan/token_budget.h"
#include "training/setup/adaptive_recompute.h"

namespace packtrain {
namespace {

// Tokens that micro-batches may be lowered to. Packs and rows are made of the budget, and other
// micro-batches of a number of examples.
bool may_lower_tokens(const Config& config) {
  const StrategyTraits& strategy = traits_of(config.batch.strategy);
  return config.memory.fit == MemoryFit::kAuto && !strategy.makes_own_steps &&
         !strategy.has_micro_batch_size;
}

class Fitter {
 public:
  Fitter(const FitInput& input, std::int64_t limit_bytes)
      : input_(input),
        limit_(limit_bytes),
        most_useful_(max_useful_tokens(input.config, input.ranks.num_ranks)),
        time_(input.config, input.decoder, input.ranks, input.work),
        given_slots_(
            slots_without_limit(input.config.parallel, input.ranks.device, input.ranks.num_ranks)),
        recompute_(recompute_choices(input.config.memory, input.decoder.num_layers)) {}

  MemoryPlan plan(const MemorySettings& settings) {
    MemoryPlanner& planner = planner_with(settings.gather_slots);
    RecomputeByLayer recompute = settings.recompute;
    recompute.num_rows = 0;  // the largest micro-batch is planned
    planner.change(recompute, tokens_of_config(settings.max_tokens));
    return planner.plan({.num_rows = largest_rows(settings),
                         .several_micro_batches = settings.max_tokens < most_useful_});
  }

  FitCandidate candidate(MemorySettings settings) {
    settings.offload = input_.config.memory.offload.value_or(Offload::kNone);
    return {settings, plan(settings).total(), time_.seconds(of_mean_rows(settings))};
  }

  std::vector<FitCandidate> list() {
    std::vector<FitCandidate> found;
    if (!input_.config.batch.max_tokens_per_micro_batch) {
      found = list_automatic();
    } else {
      for (const std::int64_t tokens : token_choices(input_.config, input_.ranks.num_ranks)) {
        for (const int slots : slot_choices()) add(least_recompute(tokens, slots), found);
      }
    }
    sort(found);
    return found;
  }

  // Of the settings that may be chosen, those of the smallest plan. A step in one micro-batch may
  // need less than in several, because its gradient is narrower.
  FitCandidate least() {
    const Config& config = input_.config;
    std::vector<std::int64_t> tokens = token_choices(config, input_.ranks.num_ranks);
    if (tokens.empty()) {
      tokens = {round_up(config.data.max_length, CollatorOptions{}.row_multiple)};
    }
    std::vector<FitCandidate> candidates;
    for (const std::int64_t count : tokens) {
      for (std::size_t i = recompute_.size() > 1 ? recompute_.size() - 2 : 0; i < recompute_.size();
           ++i) {
        candidates.push_back(
            candidate(with_rows({recompute_[i], given_slots_.value_or(kMinGatherSlots), count})));
      }
    }
    return *std::ranges::min_element(candidates, {}, &FitCandidate::bytes);
  }

 private:
  int all_slots() const {
    return std::max(kMinGatherSlots, static_cast<int>(input_.decoder.num_layers));
  }

  std::int64_t largest_rows(const MemorySettings& settings) const {
    return std::min(settings.max_tokens, most_useful_);
  }

  // Smaller micro-batches may recompute less where memory decides the recompute.
  MemorySettings with_rows(MemorySettings settings) const {
    const bool may_adapt =
        !input_.config.memory.recompute && settings.recompute != Recompute::kNone;
    if (may_adapt) settings.recompute.num_rows = largest_rows(settings);
    return settings;
  }

  // With the recompute of a micro-batch of mean size.
  MemorySettings of_mean_rows(MemorySettings settings) const {
    if (settings.recompute.num_rows == 0) return settings;
    Config config = input_.config;
    config.memory.recompute = settings.recompute;
    const double rows = input_.work.num_tokens / time_.num_micro_batches(settings);
    settings.recompute = recompute_of_rows(config, input_.decoder, input_.ranks.device,
                                           static_cast<std::int64_t>(rows));
    return settings;
  }

  std::vector<int> slot_choices() const {
    if (given_slots_) return {*given_slots_};
    std::vector<int> choices = {kMinGatherSlots, std::max(kMinGatherSlots, all_slots() / 2),
                                all_slots()};
    choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
    return choices;
  }

  // Nothing stays nothing: the number that `auto` found is no setting of the model.
  std::optional<std::int64_t> tokens_of_config(std::int64_t tokens) const {
    return input_.config.batch.max_tokens_per_micro_batch ? std::optional(tokens) : std::nullopt;
  }

  // Sizes of slots take longer than the rest of a plan.
  MemoryPlanner& planner_with(int slots) {
    const auto found = planners_.find(slots);
    if (found != planners_.end()) return found->second;
    Config config = input_.config;
    config.parallel.gather_slots = slots;
    return planners_.try_emplace(slots, config, input_.decoder, input_.ranks).first->second;
  }

  bool fits(const MemorySettings& settings) {
    const double share = settings.gather_slots > kMinGatherSlots && !given_slots_ ? kSlotShare : 1;
    return static_cast<double>(plan(settings).total()) <= share * static_cast<double>(limit_);
  }

  // The least recompute that fits. A plan shrinks from each choice to the next. It may grow to the
  // last one: a last layer that recomputes all its values has them together at its peak.
  std::optional<MemorySettings> least_recompute(std::int64_t tokens, int slots) {
    const auto settings = [&](std::size_t i) {
      return MemorySettings{recompute_[i], slots, tokens};
    };
    std::size_t low = 0;
    std::size_t high = recompute_.size() - 1;
    if (!fits(settings(high))) {
      if (high == 0 || !fits(settings(--high))) return std::nullopt;
    }
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (fits(settings(middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return settings(high);
  }

  // Adds the settings with as many more slots as fit.
  void add(std::optional<MemorySettings> settings, std::vector<FitCandidate>& found) {
    if (!settings) return;
    settings = with_rows(*settings);
    if (!given_slots_) {
      const int fewest = settings->gather_slots;
      int& slots = settings->gather_slots;
      for (slots = all_slots(); slots > fewest && !fits(*settings);) --slots;
    }
    const bool is_there =
        std::ranges::find(found, *settings, &FitCandidate::settings) != found.end();
    if (!is_there) found.push_back(candidate(*settings));
  }

  // `auto` finds as many tokens as memory holds. Without recompute it stays what it always was.
  std::vector<FitCandidate> list_automatic() {
    std::vector<FitCandidate> found;
    for (const RecomputeByLayer& recompute : recompute_) {
      Config config = input_.config;
      config.memory.recompute = recompute;
      try {
        const std::int64_t tokens = largest_token_budget(config, input_.decoder, input_.ranks,
                                                         {limit_, limit_, input_.limit.basis});
        add(MemorySettings{recompute, given_slots_.value_or(kMinGatherSlots), tokens}, found);
      } catch (const Error&) {
        if (recompute == recompute_.back() && found.empty()) throw;
      }
      if (recompute == recompute_.front() && !found.empty()) break;
    }
    return found;
  }

  // What a run has when nothing is chosen stays in front: existing runs keep their plans.
  void sort(std::vector<FitCandidate>& found) const {
    const auto tokens = input_.config.batch.max_tokens_per_micro_batch;
    const bool has_default = !found.empty() &&
                             found.front().settings.recompute == recompute_.front() &&
                             (!tokens || found.front().settings.max_tokens == *tokens);
    std::ranges::stable_sort(found.begin() + (has_default ? 1 : 0), found.end(), {},
                             &FitCandidate::seconds);
  }

  const FitInput& input_;
  std::int64_t limit_;
  std::int64_t most_useful_;
  StepTimeModel time_;
  std::optional<int> given_slots_;
  std::vector<RecomputeByLayer> recompute_;
  std::map<int, MemoryPlanner> planners_;  // by slots
};

// The input with each value that memory.offload may have, in the order of preference.
std::vector<FitInput> offload_choices(const FitInput& input) {
  if (input.config.memory.offload) return {input};
  std::vector<FitInput> choices;
  for (const Offload offload : {Offload::kNone, Offload::kActivations, Offload::kOptimizer,
                                Offload::kActivationsAndOptimizer}) {
    if (offloads_optimizer(offload) && has_factored_moments(input.config.optimizer)) continue;
    choices.push_back(input);
    choices.back().config.memory.offload = offload;
  }
  return choices;
}

bool fits_on_host(const FitInput& input, const MemorySettings& settings) {
  return settings.offload == Offload::kNone || !input.limit.host_bytes ||
         plan_with(input, settings).on_host_bytes() <= *input.limit.host_bytes;
}

}  // namespace

bool chooses_memory(const MemorySection& memory, DeviceKind device) {
  return memory.fit != MemoryFit::kOff &&
         (device == DeviceKind::kCuda || memory.limit_gib.has_value());
}

MemoryPlan plan_with(const FitInput& input, const MemorySettings& settings) {
  FitInput with = input;
  with.config.memory.offload = settings.offload;
  return Fitter(with, input.limit.bytes).plan(settings);
}

std::vector<RecomputeByLayer> recompute_choices(const MemorySection& memory,
                                                std::int64_t num_layers) {
  if (memory.recompute) return {*memory.recompute};
  return recompute_steps(num_layers);
}

std::vector<std::int64_t> token_choices(const Config& config, int num_ranks) {
  const auto given = config.batch.max_tokens_per_micro_batch;
  if (!given) return {};
  std::vector<std::int64_t> choices = {*given};
  if (!may_lower_tokens(config)) return choices;
  const std::int64_t multiple = CollatorOptions{}.row_multiple;
  const std::int64_t least = std::min(*given, round_up(config.data.max_length, multiple));
  const std::int64_t most = std::min(*given, max_useful_tokens(config, num_ranks));
  for (std::int64_t tokens = most; tokens > least; tokens /= 2) {
    for (const std::int64_t lower : {tokens - tokens / 4, tokens / 2}) {
      const std::int64_t rounded = std::max(least, lower - lower % multiple);
      if (rounded < choices.back()) choices.push_back(rounded);
    }
  }
  return choices;
}

std::vector<FitCandidate> fit_candidates(const FitInput& input) {
  return Fitter(input, input.limit.bytes).list();
}

std::optional<MemoryChoice> fit_memory(const FitInput& input) {
  const std::vector<FitInput> choices = offload_choices(input);
  std::vector<FitCandidate> found;
  for (std::size_t i = 0; i < choices.size() && found.empty(); ++i) {
    try {
      found = fit_candidates(choices[i]);
      if (found.empty()) found = Fitter(choices[i], input.limit.with_reserve).list();
    } catch (const Error&) {
      if (i + 1 == choices.size()) throw;
    }
    if (choices.size() == 1) continue;  // memory.offload is set by hand
    std::erase_if(found, [&](const auto& one) { return !fits_on_host(input, one.settings); });
  }
  if (found.empty()) return std::nullopt;
  return MemoryChoice{found[0], found.size() > 1 ? std::optional(found[1]) : std::nullopt};
}

FitCandidate least_memory(const FitInput& input) {
  const std::vector<FitInput> choices = offload_choices(input);
  std::vector<FitCandidate> candidates;
  for (const FitInput& choice : choices) {
    const FitCandidate least = Fitter(choice, input.limit.bytes).least();
    if (candidates.empty() || fits_on_host(input, least.settings)) candidates.push_back(least);
  }
  return *std::ranges::min_element(candidates, {}, &FitCandidate::bytes);
}

}  // namespace packtrain
