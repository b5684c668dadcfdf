#include "training/setup/store_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "framework/core/error.h"
#include "framework/data/group_format.h"
#include "framework/data/store_groups.h"

namespace packtrain {
namespace {

struct WantedKind {
  ObjectiveKind objective;
  const char* objective_name;
  GroupKind kind;
};

constexpr std::array kWanted = {
    WantedKind{ObjectiveKind::kNextToken, "next_token", GroupKind::kTurns},  // and plain examples
    WantedKind{ObjectiveKind::kDpo, "dpo", GroupKind::kPairs},
    WantedKind{ObjectiveKind::kIpo, "ipo", GroupKind::kPairs},
    WantedKind{ObjectiveKind::kOrpo, "orpo", GroupKind::kPairs},
    WantedKind{ObjectiveKind::kSimpo, "simpo", GroupKind::kPairs},
    WantedKind{ObjectiveKind::kCpo, "cpo", GroupKind::kPairs},
    WantedKind{ObjectiveKind::kKto, "kto", GroupKind::kJudged},
    WantedKind{ObjectiveKind::kPolicy, "policy", GroupKind::kRollouts},
};

// "dpo, ipo, orpo, simpo or cpo"
std::string objectives_of(GroupKind kind) {
  std::string names;
  for (const WantedKind& wanted : kWanted) {
    if (wanted.kind != kind) continue;
    names += (names.empty() ? "" : ", ") + std::string(wanted.objective_name);
  }
  const std::size_t last = names.rfind(", ");
  return last == std::string::npos ? names : names.replace(last, 2, " or ");
}

}  // namespace

void check_store_kind(const TokenStore& store, ObjectiveKind kind, std::string_view key) {
  if (kind == ObjectiveKind::kNextToken) return check_is_plain(store, key);
  const WantedKind& wanted = *std::ranges::find(kWanted, kind, &WantedKind::objective);
  const auto& groups = store.info().groups;
  if (groups && groups->kind == wanted.kind) return;
  const char* const wanted_name = name_of(wanted.kind);
  throw Error(
      ErrorCategory::kData,
      fmt::format("{}: {} holds {}, but objective.kind: {} reads groups of the kind '{}'", key,
                  store.folder(),
                  groups ? fmt::format("groups of the kind '{}'", name_of(groups->kind))
                         : std::string("plain examples"),
                  wanted.objective_name, wanted_name),
      fmt::format("Name a store of the kind '{}' (docs/preferences.md), or set objective.kind to "
                  "{}.",
                  wanted_name, groups ? objectives_of(groups->kind) : "next_token"));
}

void require_shareable_rows(const DecoderConfig& decoder, bool shares, const char* model) {
  const bool depends = decoder.rotary.scaling.depends_on_length() ||
                       decoder.local_rotary.scaling.depends_on_length();
  if (!shares || !depends) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("batch.share_prefixes is true, but rotary positions of {} (rope_scaling "
                          "of type dynamic or longrope) depend on the length of each example, so "
                          "that examples cannot share rows",
                          model),
              "Set batch.share_prefixes: false.");
}

}  // namespace packtrain
