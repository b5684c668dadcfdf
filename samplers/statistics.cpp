#include "samplers/statistics.h"

#include <algorithm>

namespace packtrain {
namespace {

// Sums over micro-batches: of the slowest rank, and of all ranks.
struct Load {
  double slowest = 0;
  double total = 0;

  double imbalance(double num_ranks) const { return total > 0 ? slowest * num_ranks / total : 1.0; }
};

// The work of one rank in one micro-batch.
struct Work {
  std::int64_t num_tokens = 0;
  std::int64_t num_rows = 0;  // before rounding up
  double cost = 0;
};

Work work_of(const MicroBatch& pieces, const CostModel& cost, bool pad_to_longest) {
  std::int32_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.length);
  Work work{.cost = cost.constant};
  for_each_segment(pieces, [&](std::span<const Piece>, const AttentionSegment& segment) {
    const AttentionSegment padded{{0, longest}, {}};
    const AttentionSegment& executed = pad_to_longest ? padded : segment;
    work.num_tokens += segment.rows.size();
    work.num_rows += executed.rows.size();
    work.cost += cost.of_segment(executed);
  });
  return work;
}

}  // namespace

std::int64_t num_rows(std::int64_t num_tokens, std::int64_t row_multiple) {
  return std::max<std::int64_t>(1, (num_tokens + row_multiple - 1) / row_multiple) * row_multiple;
}

PlanStatistics plan_statistics(const StepPlan& plan, const CostModel& cost,
                               std::int64_t max_tokens_per_micro_batch, std::int64_t row_multiple,
                               bool pad_to_longest, std::span<const double> speeds) {
  Load tokens;
  Load costs;
  std::int64_t rows = 0;
  std::int64_t num_tokens = 0;
  const auto num_micro_batches = static_cast<std::size_t>(plan.num_micro_batches());
  for (std::size_t m = 0; m < num_micro_batches; ++m) {
    double most_tokens = 0;
    double most_cost = 0;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      Work work = work_of(plan.ranks[rank][m], cost, pad_to_longest);
      if (!speeds.empty()) work.cost /= speeds[rank];
      rows += num_rows(work.num_rows, row_multiple);
      num_tokens += work.num_tokens;
      costs.total += work.cost;
      most_tokens = std::max(most_tokens, static_cast<double>(work.num_tokens));
      most_cost = std::max(most_cost, work.cost);
    }
    tokens.slowest += most_tokens;
    costs.slowest += most_cost;
  }
  tokens.total = static_cast<double>(num_tokens);
  PlanStatistics statistics;
  if (rows == 0) return statistics;
  const auto num_ranks = static_cast<double>(plan.ranks.size());
  const double capacity = num_ranks * static_cast<double>(num_micro_batches) *
                          static_cast<double>(max_tokens_per_micro_batch);
  statistics.fill = tokens.total / capacity;
  statistics.padding_fraction = 1.0 - tokens.total / static_cast<double>(rows);
  statistics.num_padding_tokens = rows - num_tokens;
  statistics.token_imbalance = tokens.imbalance(num_ranks);
  statistics.cost_imbalance = costs.imbalance(num_ranks);
  return statistics;
}

}  // namespace packtrain
