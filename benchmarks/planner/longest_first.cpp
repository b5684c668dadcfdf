#include "benchmarks/planner/longest_first.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "samplers/balance/bins.h"
#include "samplers/balance/greedy.h"

namespace packtrain {

double longest_first_utilization(const StepPlan& plan, const PlanOptions& options) {
  std::vector<BalanceItem> items;
  double cost = 0;
  for (const std::vector<MicroBatch>& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) {
      for (const Piece& piece : micro_batch) {
        items.push_back({options.cost.of_example(piece.length), piece.length});
        cost += items.back().cost;
      }
    }
  }
  std::ranges::stable_sort(items, std::greater{}, &BalanceItem::cost);
  const std::vector<double> equal_speeds(static_cast<std::size_t>(options.num_ranks), 1.0);
  Bins bins;
  for (int num_micro_batches = 1;; ++num_micro_batches) {
    bins.reset(items, equal_speeds, num_micro_batches, options.max_tokens_per_micro_batch);
    if (place_longest_first(bins)) break;
  }
  bins.group_by_time();
  return cost / options.num_ranks / bins.total();
}

}  // namespace packtrain
