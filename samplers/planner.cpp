#include "samplers/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "samplers/batches/group_steps.h"
#include "samplers/checked_options.h"
#include "samplers/epochs.h"
#include "samplers/group_selection.h"
#include "samplers/step_counts.h"
#include "samplers/step_share.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

void check_examples_fit(const Selection& selection, std::int64_t max_tokens) {
  if (selection.units() != nullptr) return check_groups_fit(selection, max_tokens);
  const auto longest = selection.longest_above(max_tokens);
  if (!longest) return;
  const std::int32_t length = selection.piece_length(*longest);
  if (length <= max_tokens) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("example {} has {} tokens, more than batch.max_tokens_per_micro_batch = {}",
                  *longest, length, max_tokens),
      fmt::format("Set batch.max_tokens_per_micro_batch to {} or more, or data.max_length to {} or "
                  "less with data.too_long: truncate, split or drop.",
                  length, max_tokens));
}

// Appends a step whose examples are numbered from `first_example` on.
void append(const StepPieces& step, std::int64_t first_example, StepPieces& all) {
  for (const std::size_t begin : step.pack_begins) {
    all.pack_begins.push_back(all.pieces.size() + begin);
  }
  for (Piece piece : step.pieces) {
    piece.example += first_example;
    all.pieces.push_back(piece);
  }
}

void add_to(const StepCounts& counts, StepCounts& sum) {
  sum.num_examples += counts.num_examples;
  sum.num_tokens += counts.num_tokens;
  sum.num_loss_tokens += counts.num_loss_tokens;
  sum.example_weight += counts.example_weight;
  sum.loss_token_weight += counts.loss_token_weight;
  sum.num_groups += counts.num_groups;
  sum.group_weight += counts.group_weight;
}

}  // namespace

struct Planner::State {
  State(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
        const LossCounter& loss_counter, const PlanOptions& unchecked, PlanStart start)
      : options(checked_options(unchecked)),
        num_examples(lengths.size()),
        selection(lengths, num_loss_tokens, loss_counter, options.too_long, options.max_length),
        counter(loss_counter),
        strategy(find_strategy(options.strategy)),
        epochs(selection, options, strategy, std::move(start)) {
    check_fits();
  }

  State(const TokenStore& store, const PlanOptions& unchecked, PlanStart start)
      : options(checked_options(store, unchecked)),
        own_counter(std::make_unique<StoreLossCounter>(store)),
        units(units_of(store, options)),
        num_examples(units == nullptr ? store.lengths().size() : units->size()),
        selection(units == nullptr
                      ? Selection(store.lengths(), store.num_loss_tokens(), *own_counter,
                                  options.too_long, options.max_length)
                      : Selection(*units, *own_counter, options.too_long, options.max_length)),
        counter(*own_counter),
        strategy(find_strategy(options.strategy)),
        epochs(selection, options, strategy, std::move(start)) {
    check_fits();
  }

  static std::unique_ptr<GroupUnits> units_of(const TokenStore& store, const PlanOptions& options) {
    if (store.groups() == nullptr) return nullptr;
    auto units = std::make_unique<GroupUnits>(store, options.share_prefixes);
    const bool needs_all =
        options.global_batch_tokens > 0 || options.order == OrderKind::kGroupByLength;
    if (needs_all) units->find_prefixes();
    return units;
  }

  void check_fits() const {
    check_examples_fit(selection, options.max_tokens_per_micro_batch);
    strategy.check(selection, options);
  }

  PlanOptions options;
  std::unique_ptr<LossCounter> own_counter;  // null: the caller gave one
  std::unique_ptr<GroupUnits> units;         // null: of a plain store
  std::size_t num_examples = 0;              // of the store, or groups
  Selection selection;
  const LossCounter& counter;
  const StrategyEntry& strategy;
  Epochs epochs;
  // The first step of each layout, and the options with the layout applied. Empty: `options` for
  // all steps.
  std::vector<std::pair<std::int64_t, PlanOptions>> layouts;
  std::vector<JoinedPlan> others;
  std::int64_t num_joined_steps = 0;  // of this plan among the others

  const PlanOptions& options_of(std::int64_t step) const {
    if (layouts.empty()) return options;
    const auto after = std::ranges::upper_bound(layouts, step, {},
                                                [](const auto& layout) { return layout.first; });
    return after == layouts.begin() ? after->second : std::prev(after)->second;
  }
};

Planner::Planner(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
                 const LossCounter& counter, const PlanOptions& options, PlanStart start)
    : state_(
          std::make_unique<State>(lengths, num_loss_tokens, counter, options, std::move(start))) {}

Planner::Planner(const TokenStore& store, const PlanOptions& options, PlanStart start)
    : state_(std::make_unique<State>(store, options, std::move(start))) {}

Planner::~Planner() = default;

void Planner::set_layouts(std::span<const PlanLayout> layouts) {
  state_->layouts.clear();
  for (const PlanLayout& layout : layouts) {
    PlanOptions options = state_->options;
    options.max_tokens_per_micro_batch = layout.max_tokens_per_micro_batch;
    options.cost = layout.cost;
    options.speeds = layout.speeds;
    state_->layouts.emplace_back(layout.from_step, std::move(options));
  }
}

std::int64_t Planner::num_steps(std::int64_t num_epochs,
                                std::optional<std::int64_t> at_most) const {
  return state_->epochs.num_steps(num_epochs, at_most);
}

std::int64_t Planner::num_run_steps(const RunSection& run) const {
  return run.max_steps ? *run.max_steps : num_steps(run.num_epochs);
}

std::optional<std::int64_t> Planner::steps_per_epoch() const {
  return state_->epochs.steps_per_epoch();
}

std::optional<std::int64_t> Planner::first_uncounted_epoch() const {
  return state_->epochs.first_uncounted();
}

std::int64_t Planner::count_steps(std::int64_t epoch) const {
  return state_->epochs.count_steps(epoch);
}

void Planner::add_counts(std::int64_t first, std::span<const std::int64_t> counts) const {
  state_->epochs.add_counts(first, counts);
}

std::int64_t Planner::epoch_end(std::int64_t step) const {
  return state_->epochs.epoch_end(step);
}

StepPosition Planner::position(std::int64_t step) const {
  if (step < 0) {
    throw Error(ErrorCategory::kInternal, fmt::format("plan: step {} is negative", step));
  }
  return state_->epochs.position(step);
}

void Planner::prepare_epoch(std::int64_t epoch) const {
  state_->epochs.batches(epoch);
}

bool Planner::is_epoch_prepared(std::int64_t epoch) const {
  return state_->epochs.is_ready(epoch);
}

PlanStart Planner::start_at(std::int64_t step) const {
  const StepPosition at = position(step);
  const Selection& selection = state_->selection;
  PlanStart start{.step = step, .epoch = at.epoch, .trained = {}};
  start.num_selected = std::ssize(selection.examples());
  const PlanStart& own = state_->epochs.start();
  const bool is_own_epoch = at.epoch == own.epoch && !own.trained.empty();
  if (at.step_of_epoch == 0 && !is_own_epoch) return start;
  start.trained = is_own_epoch ? own.trained : std::vector<bool>(state_->num_examples, false);
  std::unordered_map<std::int64_t, std::int64_t> parts;  // trained tokens of cut examples
  for (std::int64_t s = 0; s < at.step_of_epoch; ++s) {
    const StepPieces pieces = state_->epochs.batches(at.epoch)->step(s);
    for (const Piece& piece : pieces.pieces) {
      const auto example = static_cast<ExampleIndex>(piece.example);
      const std::int64_t length = selection.length(example);
      const bool is_whole =
          piece.length == length || (parts[piece.example] += piece.length) == length;
      if (is_whole) start.trained[example] = true;
    }
  }
  for (const auto& [example, tokens] : parts) {
    start.num_cut += tokens < selection.length(static_cast<ExampleIndex>(example)) ? 1 : 0;
  }
  start.num_trained = std::ranges::count(start.trained, true);
  return start;
}

const PlanStart& Planner::start() const {
  return state_->epochs.start();
}

const SelectionCounts& Planner::losses() const {
  return state_->selection.losses();
}

ExampleCounts Planner::unit_lengths() const {
  return state_->units == nullptr ? state_->selection.stored_lengths() : state_->units->lengths();
}

const PlanOptions& Planner::options() const {
  return state_->options;
}

StepPieces Planner::pieces(std::int64_t step) const {
  const StepPosition at = position(step);
  StepPieces units = state_->epochs.batches(at.epoch)->step(at.step_of_epoch);
  if (state_->units == nullptr) return units;
  return with_pieces_of_groups(units, *state_->units);
}

StepCounts Planner::counts(const StepPieces& pieces) const {
  return step_counts(state_->selection, state_->counter, pieces);
}

StepPlan Planner::plan(std::int64_t step) const {
  StepPlan plan;
  plan.step = step;
  plan.epoch = position(step).epoch;
  if (!state_->others.empty()) {
    plan_together(step, plan);
    return plan;
  }
  const StepPieces own = pieces(step);
  static_cast<StepCounts&>(plan) = counts(own);
  plan.ranks = state_->strategy.assign(own, state_->options_of(step));
  return plan;
}

// The packs of a plan file are the micro-batches of a whole step.
StepPlan Planner::plan_share(std::int64_t step, double share, const CounterRandom& random) const {
  const Strategy strategy = state_->options.strategy;
  const bool has_file = traits_of(strategy).has_plan_file;
  const StepPieces own = share_of(pieces(step), share, random);
  StepPlan plan;
  plan.step = step;
  plan.epoch = position(step).epoch;
  static_cast<StepCounts&>(plan) = share_counts(state_->selection, state_->counter, own);
  if (plan.num_loss_tokens == 0 || plan.loss_token_weight <= 0) return plan;
  plan.ranks = find_strategy(has_file ? Strategy::kBalanced : strategy)
                   .assign(own, state_->options_of(step));
  return plan;
}

void Planner::join(std::vector<JoinedPlan> others, std::int64_t num_steps) {
  state_->others = std::move(others);
  state_->num_joined_steps = num_steps;
}

void Planner::plan_together(std::int64_t step, StepPlan& plan) const {
  StepPieces all;
  const auto add = [&](const Planner& one, std::int64_t first_example, std::int64_t num_steps) {
    plan.parts.push_back({first_example, {}});
    if (step >= num_steps) return;
    StepPieces own = one.pieces(step);
    plan.parts.back().counts = one.counts(own);
    append(own, first_example, all);
  };
  add(*this, 0, state_->num_joined_steps);
  for (const JoinedPlan& other : state_->others) {
    add(*other.planner, other.first_example, other.num_steps);
  }
  for (const StepPart& part : plan.parts) add_to(part.counts, plan);
  plan.ranks = state_->strategy.assign(all, state_->options_of(step));
  for (std::vector<MicroBatch>& micro_batches : plan.ranks) {
    for (MicroBatch& pieces : micro_batches) {
      std::ranges::stable_sort(
          pieces, {}, [&](const Piece& piece) { return part_of(plan.parts, piece.example); });
    }
  }
}

}  // namespace packtrain
