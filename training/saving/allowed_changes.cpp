#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/saving/resumed_settings.h"

namespace packtrain {
namespace {

struct RefusedKeys {
  std::vector<std::string> allowable;
  std::vector<std::string> fixed;
};

std::string advice_for(const RefusedKeys& keys, const std::string& folder) {
  if (keys.fixed.empty()) {
    return fmt::format(
        "Restore the settings, give this run its own run.output, or allow each "
        "by its name: checkpoint.allow_changed=[{}]",
        fmt::join(keys.allowable, ","));
  }
  std::string advice = fmt::format(
      "Restore {}, because the saved state cannot be converted. Or start a new run from the "
      "weights: model.path: {} (of an adapter: adapter.path) and another run.output.",
      fmt::join(keys.fixed, " and "), folder);
  if (!keys.allowable.empty()) {
    advice += fmt::format(" The others can be allowed: checkpoint.allow_changed=[{}]",
                          fmt::join(keys.allowable, ","));
  }
  return advice;
}

}  // namespace

void check_changes(const std::vector<SettingChange>& changes,
                   const std::vector<std::string>& allowed, const std::string& folder) {
  std::vector<std::string> refused;
  RefusedKeys keys;
  for (const SettingChange& change : changes) {
    const std::string text =
        fmt::format("{}: {}, this run has {}", change.key, change.saved, change.present);
    const bool is_named = std::ranges::find(allowed, change.key) != allowed.end();
    if (is_named && change.can_be_allowed) {
      log_warning("{} was saved with {} (allowed by checkpoint.allow_changed)", folder, text);
      continue;
    }
    refused.push_back(text);
    std::vector<std::string>& list = change.can_be_allowed ? keys.allowable : keys.fixed;
    if (list.empty() || list.back() != change.key) list.push_back(change.key);
  }
  if (refused.empty()) return;
  throw Error(
      ErrorCategory::kCheckpoint,
      fmt::format("{} was saved with other settings, so that this run would not continue as "
                  "it began: {}",
                  folder, fmt::join(refused, "; ")),
      advice_for(keys, folder));
}

}  // namespace packtrain
