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

}  // namespace

double keys_of_row(const TokenStore& store) {
  if (store.groups() == nullptr) return 1;
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
  const bool is_bounded = config.objective.kind != ObjectiveKind::kPolicy;
  if (!is_bounded && shares_prefixes(config)) config.batch.keys_of_row = keys_of_row(store);
}

KeyBound key_bound(const Config& config, std::int64_t num_rows) {
  if (!shares_prefixes(config)) return {};
  const auto keys = [&](double of_row) {
    return static_cast<std::int64_t>(std::ceil(of_row * static_cast<double>(num_rows)));
  };
  if (const auto known = config.batch.keys_of_row) {
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
