#include "framework/config/sweep_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/config/schema.h"
#include "framework/config/sweep_names.h"
#include "framework/core/error.h"
#include "framework/core/hash.h"

namespace packtrain {
namespace {

constexpr const char* kAdapterName = "adapter.name";
constexpr const char* kApart = "Or leave --together out: each adapter is then a run of its own.";
constexpr std::size_t kMaxAdapterName = 64;

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

KeysAndValues keys_and_values(Config config) {
  KeysAndValues values;
  for (const Field& field : fields_of(config)) values.emplace_back(field.name, field.write());
  return values;
}

// Joined runs have equal values of all other keys.
bool may_differ(const std::string& key) {
  return is_adapter_key(key) || key == kAdapterName || key == "run.output";
}

void require_adapter(const SweepRun& run) {
  if (!run.config.adapters.empty()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("run {}: its configuration has adapters already", run.name),
                "--together makes that list: vary keys of one adapter in the sweep.");
  }
  if (run.config.adapter.is_used()) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("run {}: adapter.kind is none, and --together trains adapters", run.name),
              "Set adapter.kind: lora in all runs, or leave --together out.");
}

// A name of an adapter has letters, digits, _ and - alone.
std::string plain_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool separates = c == '=' || c == ',' || c == '-';
    if (separates && (name.empty() || name.back() == '-')) continue;
    name += separates ? '-' : c == '.' || c == '+' ? '_' : c;
  }
  if (name.ends_with('-')) name.pop_back();
  return name;
}

struct AdapterName {
  std::string text;
  std::string exact;  // the varied values that it stands for
};

AdapterName name_of(const Sweep& sweep, const SweepRun& run) {
  if (!run.config.adapter.name.empty()) return {run.config.adapter.name, ""};
  AdapterName name;
  for (std::size_t k = 0; k < sweep.columns.size(); ++k) {
    const std::string& column = sweep.columns[k];
    if (!is_adapter_key(column) && column != kSweepConfigColumn) continue;
    if (!name.text.empty()) name.text += ',';
    name.text += sweep_name_part(column, run.values[k]);
    name.exact += fmt::format("{}: {}\n", column, run.values[k]);
  }
  name.text = plain_name(name.text);
  if (name.text.empty()) name.text = "adapter";
  return name;
}

std::string with_hash(const AdapterName& name) {
  const std::string hash = hash_bytes(std::as_bytes(std::span(name.exact)));
  return fmt::format("{}-{}", name.text.substr(0, kMaxAdapterName - kSweepHashDigits - 1),
                     hash.substr(0, kSweepHashDigits));
}

// A hash is added to names that are too long, and to those that are equal without it.
void name_adapters(const Sweep& sweep, JoinedRun& run) {
  std::map<std::string, int> counts;
  for (const SweepRun& member : run.members) ++counts[name_of(sweep, member).text];
  std::set<std::string> taken;
  for (SweepRun& member : run.members) {
    const AdapterName name = name_of(sweep, member);
    const bool needs_hash = counts[name.text] > 1 || name.text.size() > kMaxAdapterName;
    const bool is_given = !member.config.adapter.name.empty();
    member.config.adapter.name = needs_hash && !is_given ? with_hash(name) : name.text;
    if (taken.insert(member.config.adapter.name).second) continue;
    throw Error(ErrorCategory::kConfig,
                fmt::format("run {}: two adapters of one run are named '{}'", member.name,
                            member.config.adapter.name),
                "Leave adapter.name out, or give each of them its own.");
  }
}

// Keys whose values differ between members, in the order of the configuration.
std::set<std::string> differing_keys(std::span<const KeysAndValues> members) {
  std::set<std::string> keys;
  for (const KeysAndValues& member : members) {
    for (std::size_t k = 0; k < member.size(); ++k) {
      if (member[k] != members.front()[k]) keys.insert(member[k].first);
    }
  }
  return keys;
}

NamedAdapter make_entry(const std::string& name, const KeysAndValues& values,
                        const std::set<std::string>& differing) {
  NamedAdapter entry{name, {}};
  for (const auto& [key, value] : values) {
    // An adapter has one of the two sizes of a step. It replaces the other.
    const bool is_no_size = key.starts_with("batch.global_batch") && value == "null";
    if (is_adapter_key(key) && differing.contains(key) && !is_no_size) {
      entry.settings.emplace_back(key, value);
    }
  }
  return entry;
}

Config joined_config(const JoinedRun& run) {
  std::vector<KeysAndValues> values;
  for (const SweepRun& member : run.members) values.push_back(keys_and_values(member.config));
  const std::set<std::string> differing = differing_keys(values);
  Config config = run.members.front().config;
  config.adapter.name.clear();
  for (std::size_t k = 0; k < values.size(); ++k) {
    config.adapters.push_back(make_entry(run.members[k].config.adapter.name, values[k], differing));
  }
  return config;
}

// Columns in which joined runs may differ from each other, and this run's values.
std::string joined_name(const Sweep& sweep, const JoinedRun& run) {
  std::vector<std::string> columns;
  std::vector<std::string> values;
  for (std::size_t k = 0; k < sweep.columns.size(); ++k) {
    if (may_differ(sweep.columns[k])) continue;
    columns.push_back(sweep.columns[k]);
    values.push_back(run.members.front().values[k]);
  }
  return "together-" + sweep_run_name(columns, values, run.hash);
}

// Checks as for a configuration of a file.
void check_joined(const JoinedRun& run) {
  try {
    resolve_settings(read_settings(dump_config(run.config), "the joined configuration"));
  } catch (const Error& error) {
    throw Error(error.category(),
                fmt::format("{} adapters together: {}", run.members.size(), error.message()),
                fmt::format("{} {}", error.advice(), kApart));
  }
}

void finish_run(const Sweep& sweep, JoinedRun& run) {
  name_adapters(sweep, run);
  run.config = joined_config(run);
  run.hash = hash_sweep_run(run.config, sweep.file.num_ranks);
  run.name = joined_name(sweep, run);
  run.config.run.output = fmt::format("{}/runs/{}", sweep.file.output, run.name);
  check_joined(run);
}

}  // namespace

JoinedSweep join_runs(const Sweep& sweep) {
  JoinedSweep joined;
  std::map<KeysAndValues, std::size_t> index_of;  // by the values that its members have in common
  for (const SweepRun& run : sweep.runs) {
    require_adapter(run);
    KeysAndValues common = keys_and_values(run.config);
    std::erase_if(common, [](const auto& entry) { return may_differ(entry.first); });
    const auto [place, is_new] = index_of.emplace(std::move(common), joined.runs.size());
    if (is_new) joined.runs.emplace_back();
    joined.runs[place->second].members.push_back(run);
  }
  std::vector<KeysAndValues> all;
  for (const auto& [common, index] : index_of) all.push_back(common);
  const std::set<std::string> keys = differing_keys(all);
  joined.separating_keys.assign(keys.begin(), keys.end());
  for (JoinedRun& run : joined.runs) finish_run(sweep, run);
  return joined;
}

}  // namespace packtrain
