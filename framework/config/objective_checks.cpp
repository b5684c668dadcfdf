#include "framework/config/objective_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/config/check_messages.h"
#include "framework/config/load.h"
#include "framework/config/objective_settings.h"

namespace packtrain {
namespace {

using Kind = ObjectiveKind;

// The kinds that read a key of the section.
struct KeyReaders {
  const char* key;
  std::vector<Kind> kinds;
};

const std::vector<KeyReaders>& key_readers() {
  static const std::vector<Kind> of_pairs = {Kind::kDpo, Kind::kIpo, Kind::kOrpo, Kind::kSimpo,
                                             Kind::kCpo};
  static const std::vector<Kind> all = {Kind::kDpo, Kind::kIpo, Kind::kOrpo,  Kind::kSimpo,
                                        Kind::kCpo, Kind::kKto, Kind::kPolicy};
  static const std::vector<Kind> with_reference = {Kind::kDpo, Kind::kIpo, Kind::kKto,
                                                   Kind::kPolicy};
  static const std::vector<KeyReaders> readers = {
      {"objective.beta", all},
      {"objective.label_smoothing", {Kind::kDpo, Kind::kCpo}},
      {"objective.length_normalize", {Kind::kDpo, Kind::kCpo}},
      {"objective.target_margin", {Kind::kSimpo}},
      {"objective.margin_scale", {Kind::kDpo}},
      {"objective.next_token_weight", of_pairs},
      {"objective.desirable_weight", {Kind::kKto}},
      {"objective.undesirable_weight", {Kind::kKto}},
      {"objective.reference", with_reference},
      {"objective.reference_path", with_reference},
      {"objective.policy_loss", {Kind::kPolicy}},
      {"objective.ratio", {Kind::kPolicy}},
      {"objective.clip_low", {Kind::kPolicy}},
      {"objective.clip_high", {Kind::kPolicy}}};
  return readers;
}

std::string name_of_kind(Kind kind) {
  Config config;
  config.objective.kind = kind;
  return config_value(config, "objective.kind");
}

std::string stated_kind(const Config& config, const SettingPlaces& places) {
  return stated("objective.kind", name_of_kind(config.objective.kind), places);
}

void check_kind_reads_keys(const Config& config, const SettingPlaces& places) {
  for (const KeyReaders& readers : key_readers()) {
    if (std::ranges::find(readers.kinds, config.objective.kind) != readers.kinds.end()) continue;
    if (!is_changed(config, readers.key)) continue;
    std::vector<std::string> names;
    for (const Kind kind : readers.kinds) names.push_back(name_of_kind(kind));
    fail_unread(config, readers.key, "objective.kind",
                fmt::format("objective.kind to {}", fmt::join(names, " or ")), places);
  }
}

void check_reference_is_read(const Config& config, const SettingPlaces& places) {
  const ObjectiveSection& objective = config.objective;
  if (has_reference(objective)) return;
  for (const char* key : {"objective.reference", "objective.reference_path"}) {
    if (!is_changed(config, key)) continue;
    fail_check(fmt::format("{}, but {} and objective.beta is 0 ({}): the loss has no reference",
                           stated(key, config_value(config, key), places),
                           stated_kind(config, places), place_of("objective.beta", places)),
               "Set objective.beta above 0, or leave the reference out.");
  }
}

// Without a factor the loss of a group is a constant. That of ipo is infinite. orpo keeps its
// next-token loss, and policy its ratios.
void check_beta(const Config& config, const SettingPlaces& places) {
  const ObjectiveSection& objective = config.objective;
  if (objective.kind == Kind::kOrpo || objective.kind == Kind::kPolicy) return;
  if (resolved_beta(objective) > 0) return;
  fail_check(fmt::format("{}, but {}: the loss would not depend on the answers",
                         stated("objective.beta", config_value(config, "objective.beta"), places),
                         stated_kind(config, places)),
             "Set objective.beta above 0, or leave it out for the default of the kind.");
}

bool is_digest(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void check_reference_path(const Config& config, const SettingPlaces& places) {
  const std::string& path = config.objective.reference_path;
  const auto source = reference_source(config);
  const bool is_model = source == ReferenceSource::kModel;
  if (is_model && path.empty()) {
    fail_check(fmt::format("{}, but objective.reference_path is not given",
                           stated("objective.reference", "model", places)),
               "Set objective.reference_path to the Hugging Face folder of the reference model, "
               "often that of model.path.");
  }
  if (source == ReferenceSource::kLogProbs && !path.empty() && !is_digest(path)) {
    fail_check(fmt::format("{}, wanted 16 hexadecimal digits with objective.reference: log_probs",
                           stated("objective.reference_path", path, places)),
               "It is the DIGEST in log-probs-DIGEST.safetensors; of a second model set "
               "objective.reference: model.");
  }
  if (source == ReferenceSource::kBase && !path.empty()) {
    fail_check(fmt::format("{}, but {}", stated("objective.reference_path", path, places),
                           stated("objective.reference",
                                  config_value(config, "objective.reference"), places)),
               "Set objective.reference: model, or leave objective.reference_path out.");
  }
}

// The divergence of `kto` is of answers that no file has.
void check_divergence(const Config& config, const SettingPlaces& places) {
  if (config.objective.kind != Kind::kKto) return;
  if (reference_source(config) == ReferenceSource::kLogProbs) {
    fail_check(
        fmt::format(
            "{}, but {}{}: its divergence is of answers to other prompts, which change "
            "with the steps, so that no file has their log-probabilities",
            stated("objective.kind", "kto", places),
            stated("objective.reference", config_value(config, "objective.reference"), places),
            config.objective.reference ? "" : ", which is log_probs without an adapter"),
        "Train an adapter (adapter.kind: lora), whose reference is the model under it; or set "
        "objective.reference: model and objective.reference_path.");
  }
  if (config.batch.global_batch_size == 1) {
    fail_check(fmt::format("{}, but {}: the divergence needs two examples a step",
                           stated("objective.kind", "kto", places),
                           stated("batch.global_batch_size", 1, places)),
               "Raise batch.global_batch_size.");
  }
}

void check_reference(const Config& config, const SettingPlaces& places) {
  check_reference_is_read(config, places);
  check_reference_path(config, places);
  check_divergence(config, places);
  if (reference_source(config) != ReferenceSource::kBase || trains_adapter(config)) return;
  fail_check(
      fmt::format("{}, but no adapter is trained: adapter.kind is none ({})",
                  stated("objective.reference", "base", places), place_of("adapter.kind", places)),
      "Set objective.reference: log_probs after `packtrain score --log-probs`, or model.");
}

// Groups are never cut, and their examples never see other groups.
void check_groups_stay_whole(const Config& config, const SettingPlaces& places) {
  const StrategyTraits& strategy = traits_of(config.batch.strategy);
  if (strategy.has_rows) {
    fail_check(
        fmt::format("{}, but {}: its rows cut examples",
                    stated("batch.strategy", strategy.name, places), stated_kind(config, places)),
        "Set batch.strategy: balanced.");
  }
  const TooLong too_long = config.data.too_long;
  if (too_long == TooLong::kTruncate || too_long == TooLong::kSplit) {
    fail_check(fmt::format("{}, but {}: an answer counts as a whole",
                           stated("data.too_long", config_value(config, "data.too_long"), places),
                           stated_kind(config, places)),
               "Set data.too_long: error or drop, which drops the whole group.");
  }
}

}  // namespace

void check_objective(const Config& config, const SettingPlaces& places) {
  check_kind_reads_keys(config, places);
  if (!trains_groups(config.objective)) return;
  if (!config.adapters.empty()) {
    fail_check(fmt::format("adapters ({}) are several, but {}", place_of("adapters", places),
                           stated_kind(config, places)),
               "Several adapters are trained on next tokens alone: give one of them as adapter.");
  }
  check_beta(config, places);
  check_reference(config, places);
  check_groups_stay_whole(config, places);
}

bool has_reference(const ObjectiveSection& objective) {
  switch (objective.kind) {
    case Kind::kDpo:
    case Kind::kIpo:
    case Kind::kKto:
      return true;
    case Kind::kPolicy:
      return resolved_beta(objective) > 0;
    case Kind::kNextToken:
    case Kind::kOrpo:
    case Kind::kSimpo:
    case Kind::kCpo:
      break;
  }
  return false;
}

std::optional<ReferenceSource> reference_source(const Config& config) {
  if (!has_reference(config.objective)) return std::nullopt;
  if (config.objective.reference) return config.objective.reference;
  return trains_adapter(config) ? ReferenceSource::kBase : ReferenceSource::kLogProbs;
}

}  // namespace packtrain
