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

constexpr std::string_view kAdvantageColumn = "advantage";

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

void check_has_values(const TokenStore& store, const ObjectiveSection& objective,
                      std::string_view key) {
  const StoreInfo& info = store.info();
  if (objective.kind == ObjectiveKind::kDpo && objective.margin_scale != 0 &&
      !info.groups->has_margins) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: the pairs of {} have no margins, but objective.margin_scale is {}",
                            key, store.folder(), objective.margin_scale),
                "Prepare the store from data with margins, or set objective.margin_scale: 0.");
  }
  const auto& columns = info.token_columns;
  if (objective.kind == ObjectiveKind::kPolicy &&
      std::ranges::find(columns, kAdvantageColumn) == columns.end()) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: the rollouts of {} have no token column '{}'", key, store.folder(),
                            kAdvantageColumn),
                fmt::format("Prepare the store with --format rollouts, or with --pretokenized and "
                            "--token-column {}.",
                            kAdvantageColumn));
  }
}

}  // namespace

void check_store_kind(const TokenStore& store, const ObjectiveSection& objective,
                      std::string_view key) {
  if (objective.kind == ObjectiveKind::kNextToken) return check_is_plain(store, key);
  const WantedKind& wanted = *std::ranges::find(kWanted, objective.kind, &WantedKind::objective);
  const auto& groups = store.info().groups;
  if (groups && groups->kind == wanted.kind) return check_has_values(store, objective, key);
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
  if (shares && decoder.has_other_mixers()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("batch.share_prefixes is true, but layers of {} have another mixer "
                            "than attention, which starts at the first token of an example, so "
                            "that examples cannot share rows",
                            model),
                "Set batch.share_prefixes: false.");
  }
  if (!shares || !depends) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("batch.share_prefixes is true, but rotary positions of {} (rope_scaling "
                          "of type dynamic or longrope) depend on the length of each example, so "
                          "that examples cannot share rows",
                          model),
              "Set batch.share_prefixes: false.");
}

}  // namespace packtrain
