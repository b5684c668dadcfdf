#include "training/plan/shared_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/config/objective_settings.h"
#include "samplers/group_units.h"

namespace packtrain {
namespace {

// Two examples have at most twice as many tokens as rows, because the shared ones are rows once.
constexpr double kKeysOfRowOfPairs = 2;
constexpr std::int64_t kAssumedAnswers =
    16;  // of a group; a group of n has fewer than n keys a row

// Kernels copy the shared prompt for each turn, and have its own keys too. It is a part of the last
// turn, whose tokens are all rows; every other turn has a row at least.
double most_keys_of_turns(const TokenStore& store) {
  const ExampleGroups& groups = *store.groups();
  const ExampleCounts lengths = store.lengths();
  double most = 1;
  for (std::int64_t g = 0; g < store.info().groups->num_groups; ++g) {
    const ExampleGroup group = groups.group(g);
    if (group.num_examples < 2) continue;
    const auto first = static_cast<std::size_t>(group.first_example);
    const std::size_t last = first + static_cast<std::size_t>(group.num_examples) - 1;
    std::int64_t num_keys = lengths[last];
    for (std::size_t e = first; e <= last; ++e) num_keys += lengths[e];
    const std::int64_t num_rows = std::max<std::int64_t>(1, lengths[last] + group.num_examples - 1);
    most = std::max(most, static_cast<double>(num_keys) / static_cast<double>(num_rows));
  }
  return most;
}

}  // namespace

double keys_of_row(const TokenStore& store) {
  if (store.groups() == nullptr) return 1;
  if (store.info().groups->kind == GroupKind::kTurns) return most_keys_of_turns(store);
  const GroupUnits units(store, /*share_prefixes=*/true);
  units.find_prefixes();
  const ExampleCounts rows = units.lengths();
  double most = 1;
  for (std::size_t g = 0; g < units.size(); ++g) {
    if (rows[g] == 0) continue;
    const ExampleGroup group = units.group(static_cast<std::int64_t>(g));
    most = std::max(most, static_cast<double>(units.num_stored_tokens(group)) / rows[g]);
  }
  return most;
}

void set_keys_of_row(const TokenStore& store, Config& config) {
  const auto& groups = store.info().groups;
  const bool is_bounded = groups && groups->kind == GroupKind::kPairs;
  if (!is_bounded && shares_prefixes(config, groups.has_value())) {
    config.batch.keys_of_row = keys_of_row(store);
  }
}

KeyBound key_bound(const Config& config, std::int64_t num_rows) {
  const auto known = config.batch.keys_of_row;
  if (!shares_prefixes(config, known.has_value() || trains_groups(config.objective))) return {};
  const auto keys = [&](double of_row) {
    return static_cast<std::int64_t>(std::ceil(of_row * static_cast<double>(num_rows)));
  };
  if (known) {
    if (*known <= 1) return {};  // no group shares a token
    return {keys(*known),
            fmt::format("{:.4g} for each row, as in the group that shares most", *known)};
  }
  if (config.objective.kind != ObjectiveKind::kPolicy) {
    return {keys(kKeysOfRowOfPairs), "2 for each row, the most that pairs have"};
  }
  return {keys(kAssumedAnswers),
          fmt::format("not known without the store: {} for each row, for groups of {} answers",
                      kAssumedAnswers, kAssumedAnswers)};
}

}  // namespace packtrain
