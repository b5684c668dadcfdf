#include "training/plan/adapter_plans.h"

#include <utility>

#include "training/plan/plan_source.h"

namespace packtrain {
namespace {

void add(const SelectionCounts& own, SelectionCounts& sum) {
  sum.empty_examples += own.empty_examples;
  sum.dropped_examples += own.dropped_examples;
  sum.masked_examples += own.masked_examples;
  sum.truncated_to_empty_examples += own.truncated_to_empty_examples;
  sum.truncated_examples += own.truncated_examples;
  sum.split_examples += own.split_examples;
}

}  // namespace

AdapterPlans join_adapter_plans(const PlanOptions& options, const DecoderConfig& decoder,
                                const AdapterStores& adapters, const CountSteps& count_steps) {
  AdapterPlans joined;
  std::vector<JoinedPlan> plans;
  std::int64_t first_example = 0;
  for (std::size_t a = 0; a < adapters.stores.size(); ++a) {
    const TokenStore& store = *adapters.stores[a];
    const Config& own = adapters.configs[a];
    PlanOptions own_options =
        plan_options(own, decoder, options.num_ranks, options.max_tokens_per_micro_batch,
                     store.groups() != nullptr);
    own_options.order_version = options.order_version;
    auto planner = std::make_unique<Planner>(store, own_options);
    joined.num_steps.push_back(count_steps(*planner, own.run));
    add(planner->losses(), joined.losses);
    plans.push_back({std::move(planner), first_example, joined.num_steps.back()});
    first_example += store.info().num_examples;
  }
  joined.planner = std::move(plans.front().planner);
  plans.erase(plans.begin());
  joined.planner->join(std::move(plans), joined.num_steps.front());
  return joined;
}

}  // namespace packtrain
