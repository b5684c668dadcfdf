#include "training/plan/plan_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/config/load.h"
#include "framework/config/objective_settings.h"
#include "framework/config/offload.h"
#include "framework/config/recompute.h"
#include "framework/core/error.h"
#include "samplers/plan_file/plan_file.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMeasured = "measured";
constexpr const char* kFlops = "flops";
constexpr const char* kLocal = "local";
constexpr const char* kData = "data.train";
constexpr const char* kContents =
    "data.train.contents";  // added to data.train, to distinguish tokens of equal lengths

Json to_json(const PlanEntry& entry) {
  const CostModel& cost = entry.layout.cost;
  Json json = {{"from_step", entry.layout.from_step},
               {"num_ranks", entry.num_ranks},
               {"max_tokens_per_micro_batch", entry.layout.max_tokens_per_micro_batch},
               {"lowered_from", entry.lowered_from},
               {"cost_source", entry.cost_source == CostSource::kMeasured ? kMeasured : kFlops},
               {"cost",
                {{"linear", cost.linear},
                 {"quadratic", cost.quadratic},
                 {"constant", cost.constant},
                 {"windowed_share", cost.span.windowed_share},
                 {"window", cost.span.window}}},
               {"speeds", entry.layout.speeds}};
  if (cost.span.chunked_share > 0) {
    json["cost"]["chunked_share"] = cost.span.chunked_share;
    json["cost"]["chunk"] = cost.span.chunk;
  }
  if (entry.shard_size > 0) json["shard_size"] = entry.shard_size;
  if (entry.accumulate == Accumulate::kLocal) json["accumulate"] = kLocal;
  if (entry.fitted) {
    json["memory_fit"] = {{"recompute", recompute_text(entry.fitted->recompute)},
                          {"gather_slots", entry.fitted->gather_slots}};
    const Offload offload = entry.fitted->offload;
    if (offload != Offload::kNone) json["memory_fit"]["offload"] = offload_text(offload);
  }
  return json;
}

void require(bool right, const char* what) {
  if (!right) throw Error(ErrorCategory::kCheckpoint, what);
}

// Most entries have none.
std::optional<FittedMemory> fitted_from(const Json& entry) {
  if (!entry.contains("memory_fit")) return std::nullopt;
  const Json& json = entry["memory_fit"];
  const auto recompute = parse_recompute(json.at("recompute").get<std::string>());
  const int gather_slots = json.at("gather_slots").get<int>();
  require(recompute.has_value(), "memory_fit.recompute is no value of memory.recompute");
  require(gather_slots >= 1, "memory_fit.gather_slots is below 1");
  const auto offload = parse_offload(json.value("offload", "none"));  // most have none
  require(offload.has_value(), "memory_fit.offload is no value of memory.offload");
  return FittedMemory{*recompute, gather_slots, *offload};
}

PlanEntry entry_from(const Json& json) {
  PlanEntry entry;
  PlanLayout& layout = entry.layout;
  json.at("from_step").get_to(layout.from_step);
  json.at("num_ranks").get_to(entry.num_ranks);
  json.at("max_tokens_per_micro_batch").get_to(layout.max_tokens_per_micro_batch);
  entry.lowered_from = json.value("lowered_from", std::int64_t{0});  // older files have none
  entry.shard_size = json.value("shard_size", 0);                    // most have none
  entry.fitted = fitted_from(json);
  const std::string accumulate = json.value("accumulate", "");  // most have none
  require(accumulate.empty() || accumulate == kLocal, "accumulate is not local");
  if (!accumulate.empty()) entry.accumulate = Accumulate::kLocal;
  const auto source = json.at("cost_source").get<std::string>();
  require(source == kMeasured || source == kFlops, "cost_source is neither flops nor measured");
  entry.cost_source = source == kMeasured ? CostSource::kMeasured : CostSource::kFlops;
  json.at("cost").at("linear").get_to(layout.cost.linear);
  json.at("cost").at("quadratic").get_to(layout.cost.quadratic);
  json.at("cost").at("constant").get_to(layout.cost.constant);
  // Files from versions without windows have neither. Models without chunks have no chunk.
  layout.cost.span.windowed_share = json.at("cost").value("windowed_share", 0.0);
  layout.cost.span.window = json.at("cost").value("window", 0.0);
  layout.cost.span.chunked_share = json.at("cost").value("chunked_share", 0.0);
  layout.cost.span.chunk = json.at("cost").value("chunk", 0.0);
  json.at("speeds").get_to(layout.speeds);
  require(layout.from_step >= 0 && entry.num_ranks >= 1 && layout.max_tokens_per_micro_batch >= 1 &&
              (entry.lowered_from == 0 || entry.lowered_from > layout.max_tokens_per_micro_batch),
          "a count is out of range");
  require(
      entry.shard_size >= 0 && (entry.shard_size == 0 || entry.num_ranks % entry.shard_size == 0),
      "shard_size does not divide num_ranks");
  require(layout.speeds.empty() || std::ssize(layout.speeds) == entry.num_ranks,
          "there are not as many speeds as ranks");
  require(std::ranges::all_of(layout.speeds, [](double speed) { return speed > 0; }),
          "a speed is not above 0");
  return entry;
}

PlanSettings settings_from(const Json& json) {
  PlanSettings settings;
  for (const auto& [key, value] : json.items()) {
    settings.emplace_back(key, value.get<std::string>());
  }
  return settings;
}

Json to_json(const PlanSettings& settings) {
  Json json = Json::object();
  for (const auto& [key, value] : settings) json[key] = value;
  return json;
}

// Most headers do not have these members.
void read_continuation(const Json& json, PlanHeader& header) {
  header.ends_epoch = json.value("ends_epoch", false);
  if (!json.contains("start")) return;
  const Json& start = json["start"];
  start.at("step").get_to(header.from_step);
  start.at("epoch").get_to(header.first_epoch);
  start.at("schedule_position").get_to(header.schedule_position);
  std::int64_t last_step = -1;
  for (const Json& plan : json.at("earlier")) {
    header.earlier.push_back({plan.at("from_step").get<std::int64_t>(),
                              plan.at("first_epoch").get<std::int64_t>(),
                              settings_from(plan.at("settings"))});
    const std::int64_t from_step = header.earlier.back().from_step;
    require(from_step > last_step && header.earlier.back().first_epoch >= 0,
            "the earlier plans are not in ascending order");
    last_step = from_step;
  }
  require(header.from_step > last_step && header.first_epoch >= 0 && header.schedule_position >= 0,
          "the start is out of range");
}

void write_continuation(const PlanHeader& header, Json& json) {
  if (header.ends_epoch) json["ends_epoch"] = true;
  if (header.from_step == 0) return;
  json["start"] = {{"step", header.from_step},
                   {"epoch", header.first_epoch},
                   {"schedule_position", header.schedule_position}};
  json["earlier"] = Json::array();
  for (const EarlierPlan& plan : header.earlier) {
    json["earlier"].push_back({{"from_step", plan.from_step},
                               {"first_epoch", plan.first_epoch},
                               {"settings", to_json(plan.settings)}});
  }
}

PlanHeader parse(const std::string& text) {
  const Json json = Json::parse(text);
  PlanHeader header;
  header.settings = settings_from(json.at("settings"));
  read_continuation(json, header);
  header.order_version = json.value("order_version", 1);
  require(header.order_version >= 1 && header.order_version <= kOrderVersion,
          "order_version is of a later version of packtrain");
  for (const Json& entry : json.at("entries")) header.entries.push_back(entry_from(entry));
  const auto from_step = [](const PlanEntry& entry) { return entry.layout.from_step; };
  require(!header.entries.empty(), "there is no entry");
  require(std::ranges::is_sorted(header.entries, std::ranges::less_equal{}, from_step),
          "the entries are not in ascending order");
  return header;
}

std::string number_or_null(std::int64_t number) {
  return number == 0 ? "null" : std::to_string(number);
}

// Strategies without own steps make the same steps. Headers of checkpoints have this text for them,
// so it stays when there are more of them.
std::string strategy_family(const Config& config) {
  return traits_of(config.batch.strategy).makes_own_steps ? config_value(config, "batch.strategy")
                                                          : "padding, padding_free or balanced";
}

}  // namespace

void PlanHeader::begin(PlanEntry entry) {
  if (!entries.empty()) {
    PlanEntry newest = entries.back();
    const bool holds_already = newest.layout.from_step <= entry.layout.from_step;
    newest.layout.from_step = entry.layout.from_step;
    if (holds_already && newest == entry) return;
  }
  std::erase_if(entries, [&](const PlanEntry& other) {
    return other.layout.from_step >= entry.layout.from_step;
  });
  entries.push_back(std::move(entry));
}

std::vector<PlanLayout> PlanHeader::layouts(int num_ranks) const {
  std::vector<PlanLayout> found;
  for (const PlanEntry& entry : entries) {
    if (entry.num_ranks == num_ranks) found.push_back(entry.layout);
  }
  return found;
}

std::string data_setting(const std::string& data_fingerprint) {
  return "data of fingerprint " + data_fingerprint;
}

PlanSettings plan_settings(const Config& config, const PlanOptions& options,
                           const std::string& data_fingerprint, const std::string& content_digest) {
  PlanSettings settings = {
      {kData, data_setting(data_fingerprint)},
      {"run.seed", std::to_string(options.seed)},
      {"batch.strategy", strategy_family(config)},
      {"batch.order", config_value(config, "batch.order")},
      {"data.max_length", std::to_string(options.max_length)},
      {"data.too_long", config_value(config, "data.too_long")},
      {"batch.global_batch_size", number_or_null(options.global_batch_size)},
      {"batch.global_batch_tokens", number_or_null(options.global_batch_tokens)},
  };
  for (const NamedAdapter& adapter : config.adapters) {
    for (const auto& [key, value] : adapter.settings) {
      if (!key.starts_with("global_batch_")) continue;
      settings.emplace_back(fmt::format("adapters.{}.{}", adapter.name, key), value);
    }
  }
  if (traits_of(config.batch.strategy).has_packs) {
    settings.emplace_back("batch.packing_window", std::to_string(config.batch.packing_window));
    settings.emplace_back("batch.max_tokens_per_micro_batch",
                          std::to_string(options.max_tokens_per_micro_batch));
  }
  // Steps of tokens count the rows that are computed, and orders by length compare them.
  const bool reads_rows =
      options.global_batch_tokens > 0 || options.order == OrderKind::kGroupByLength;
  // Whether a run of next tokens has groups is not known here. Only false would be a change of it.
  const bool may_share =
      trains_groups(config.objective) || options.share_prefixes || !config.batch.share_prefixes;
  if (may_share && reads_rows) {
    settings.emplace_back("batch.share_prefixes", options.share_prefixes ? "true" : "false");
  }
  if (options.plan_file != nullptr) {
    settings.emplace_back("batch.plan_file", "plan of digest " + options.plan_file->digest());
  }
  if (!content_digest.empty()) {
    settings.emplace_back(kContents, "tokens and masks of digest " + content_digest);
  }
  return settings;
}

std::vector<SettingChange> changes_of(const PlanSettings& saved, const PlanSettings& present) {
  std::vector<SettingChange> changes;
  for (const auto& [key, value] : present) {
    const auto found = std::ranges::find(saved, key, &PlanSettings::value_type::first);
    if (found == saved.end() || found->second == value) continue;
    const std::string name = key == kContents ? kData : key;
    if (std::ranges::find(changes, name, &SettingChange::key) != changes.end()) continue;
    changes.push_back({name, found->second, value});
  }
  return changes;
}

std::string plan_header_text(const PlanHeader& header) {
  Json json = {{"order_version", header.order_version},
               {"settings", to_json(header.settings)},
               {"entries", Json::array()}};
  for (const PlanEntry& entry : header.entries) json["entries"].push_back(to_json(entry));
  write_continuation(header, json);
  return json.dump();
}

PlanHeader parse_plan_header(const std::string& text, const std::string& where) {
  std::string fault;
  try {
    return parse(text);
  } catch (const Error& error) {
    fault = error.message();
  } catch (const nlohmann::json::exception& error) {
    fault = error.what();
  }
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: the plan header: {}", where, fault),
              "The checkpoint is damaged or from another version; use an older one.");
}

}  // namespace packtrain
