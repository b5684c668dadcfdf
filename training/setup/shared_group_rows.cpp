#include "training/setup/shared_group_rows.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "framework/config/objective_settings.h"
#include "framework/core/error.h"
#include "parallel/communicators/collectives.h"
#include "samplers/group_units.h"

namespace packtrain {
namespace {

// By the memory plan (set_keys_of_row), the order, the size of steps or the strategy.
bool asks_for_all(const GroupInfo& groups, const Config& config) {
  const BatchSection& batch = config.batch;
  const StrategyTraits& strategy = traits_of(batch.strategy);
  const bool has_bound = groups.kind == GroupKind::kPairs || groups.kind == GroupKind::kTurns;
  return !has_bound || batch.global_batch_tokens.has_value() ||
         batch.order == OrderKind::kGroupByLength || strategy.has_micro_batch_size ||
         strategy.has_plan_file;
}

}  // namespace

void share_group_rows(const TokenStore& store, Communicator& control) {
  const ExampleGroups* const groups = store.groups();
  if (groups == nullptr || control.size() == 1 || !groups->kept_rows().empty()) return;
  const GroupUnits units(store, /*share_prefixes=*/true);
  const auto num_ranks = static_cast<std::size_t>(control.size());
  const std::size_t share = (units.size() + num_ranks - 1) / num_ranks;
  std::vector<std::int32_t> own(share, 0);
  std::optional<Error> failure;
  try {
    const std::size_t begin = std::min(units.size(), share * control.rank());
    const std::size_t end = std::min(units.size(), begin + share);
    units.find_prefixes(begin, end);
    for (std::size_t g = begin; g < end; ++g) own[g - begin] = units.lengths()[g];
  } catch (const Error& error) {
    failure = error;
  }
  throw_first_rank_error(failure, control);
  std::vector<std::int32_t> all(share * num_ranks);
  control.all_gather(own.data(), all.data(), share, DataType::kInt32, nullptr);
  all.resize(units.size());
  groups->keep_rows(std::move(all));
}

void share_training_group_rows(const TokenStore& store, const Config& config,
                               Communicator& control) {
  const auto& groups = store.info().groups;
  if (!groups || !shares_prefixes(config, true) || !asks_for_all(*groups, config)) return;
  share_group_rows(store, control);
}

}  // namespace packtrain
