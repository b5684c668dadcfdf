#include "training/plan/plan_summary.h"

#include <algorithm>

#include "samplers/statistics.h"

namespace packtrain {
namespace {

// MicroBatchWork of one rank in one micro-batch.
struct MicroBatchWork {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;
  std::int64_t split_examples = 0;
  double cost = 0;          // of executed tokens and pads
  double useful_cost = 0;   // of tokens
  double largest_cost = 0;  // of one sequence or group
  double flops = 0;         // of executed tokens and pads
  std::int64_t saved_rows = 0;
  std::int64_t max_unit_rows = 0;  // of one sequence or group
  std::int64_t keys = 0;           // 0: no prefix is shared
};

// Rows of its prefix that the examples of a group see and do not compute.
std::int64_t saved_rows(std::span<const Piece> unit) {
  std::int64_t saved = 0;
  for (const Piece& piece : unit) {
    if (piece.is_prefix) saved -= piece.length;
    if (piece.after_prefix) saved += piece.begin;
  }
  return saved;
}

MicroBatchWork work_of(const MicroBatch& pieces, const PlanSummaryOptions& options) {
  MicroBatchWork work;
  std::int32_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.length);
  const auto add = [&](std::span<const Piece> sequence, const AttentionSegment& segment) {
    const AttentionSegment padded{{0, longest}, {}};
    const AttentionSegment& executed = options.pad_to_longest ? padded : segment;
    const double cost = options.cost.of_segment(segment);
    work.tokens += segment.rows.size();
    work.rows += executed.rows.size();
    work.split_examples += std::ranges::count_if(
        sequence, [](const Piece& piece) { return piece.begin == 0 && piece.continues; });
    work.useful_cost += cost;
    work.cost += options.pad_to_longest ? options.cost.of_segment(executed) : cost;
    work.flops += options.flops.of_segment(executed);
    return cost;
  };
  bool shares = false;
  for_each_unit(pieces, [&](std::span<const Piece> unit) {
    double cost = 0;
    std::int64_t rows = 0;
    SequenceCounts sequences;
    for_each_segment(unit, [&](std::span<const Piece> sequence, const AttentionSegment& segment) {
      cost += add(sequence, segment);
      rows += segment.rows.size();
      sequences.add(segment);
    });
    work.keys += sequences.num_keys();
    shares = shares || sequences.has_prefixes();
    work.largest_cost = std::max(work.largest_cost, cost);
    work.max_unit_rows = std::max(work.max_unit_rows, rows);
    work.saved_rows += saved_rows(unit);
  });
  const std::int64_t used = work.rows;
  work.rows = num_rows(used, options.row_multiple);
  work.keys = shares ? work.keys + work.rows - used : 0;
  return work;
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 1.0;
}

}  // namespace

CostModel utilization_cost(std::int64_t hidden_size) {
  return {
      .linear = 1.0, .quadratic = 1.0 / (6.0 * static_cast<double>(hidden_size)), .constant = 0.0};
}

void PlanSummary::add(const StepPlan& plan) {
  double tokens = 0;
  double slowest_tokens = 0;
  MicroBatchWork total;    // over ranks and micro-batches
  MicroBatchWork slowest;  // sums over micro-batches of the slowest rank
  for (std::size_t m = 0; m < static_cast<std::size_t>(plan.num_micro_batches()); ++m) {
    MicroBatchWork most;
    for (const std::vector<MicroBatch>& rank : plan.ranks) {
      const MicroBatchWork work = work_of(rank[m], options_);
      tokens += static_cast<double>(work.tokens);
      total.useful_cost += work.useful_cost;
      total.largest_cost = std::max(total.largest_cost, work.largest_cost);
      rows_ += work.rows;
      split_examples_ += work.split_examples;
      saved_rows_ += work.saved_rows;
      if (plan.num_groups > 0) max_group_rows_ = std::max(max_group_rows_, work.max_unit_rows);
      most.tokens = std::max(most.tokens, work.tokens);
      most.cost = std::max(most.cost, work.cost);
      most.flops = std::max(most.flops, work.flops);
      largest_.rows = std::max(largest_.rows, work.rows);
      largest_.keys = std::max(largest_.keys, work.keys);
    }
    slowest_tokens += static_cast<double>(most.tokens);
    slowest.cost += most.cost;
    slowest.flops += most.flops;
    largest_.tokens = std::max(largest_.tokens, most.tokens);
  }
  const auto num_ranks = static_cast<double>(plan.ranks.size());
  const double fair_share = total.useful_cost / num_ranks;
  ++num_steps_;
  counts_.num_examples += plan.num_examples;
  counts_.num_tokens += plan.num_tokens;
  counts_.num_loss_tokens += plan.num_loss_tokens;
  counts_.num_groups += plan.num_groups;
  num_micro_batches_ += plan.num_micro_batches();
  slots_ += plan.num_micro_batches() * std::ssize(plan.ranks);
  token_imbalance_ += ratio(slowest_tokens * num_ranks, tokens);
  utilization_ += ratio(fair_share, slowest.cost);
  bound_ += ratio(fair_share, std::max(fair_share, total.largest_cost));
  step_flops_ += slowest.flops;
}

double PlanSummary::fill() const {
  return ratio(
      static_cast<double>(counts_.num_tokens),
      static_cast<double>(slots_) * static_cast<double>(options_.max_tokens_per_micro_batch));
}

double PlanSummary::padding_fraction() const {
  return 1.0 - ratio(static_cast<double>(counts_.num_tokens), static_cast<double>(rows_));
}

double PlanSummary::saved_fraction() const {
  const auto saved = static_cast<double>(saved_rows_);
  return saved > 0 ? saved / (saved + static_cast<double>(counts_.num_tokens)) : 0.0;
}

StepLoads step_loads(const StepPlan& plan, const PlanSummaryOptions& options) {
  StepLoads loads{std::vector<double>(plan.ranks.size(), 0.0), 0.0};
  for (std::size_t m = 0; m < static_cast<std::size_t>(plan.num_micro_batches()); ++m) {
    double slowest = 0;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      const double cost = work_of(plan.ranks[rank][m], options).cost;
      loads.ranks[rank] += cost;
      slowest = std::max(slowest, cost);
    }
    loads.step += slowest;
  }
  return loads;
}

std::int64_t rows_in(const MicroBatch& pieces, const PlanSummaryOptions& options) {
  return work_of(pieces, options).rows;
}

}  // namespace packtrain
