#include "training/setup/continued_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "models/adapters/lora_targets.h"
#include "training/setup/lora_section.h"

namespace packtrain {
namespace {

constexpr const char* kKeys[] = {
    "adapter.rank",         "adapter.alpha",         "adapter.use_rslora",
    "adapter.use_dora",     "adapter.targets",       "adapter.exclude",
    "adapter.rank_pattern", "adapter.alpha_pattern", "adapter.layers_to_transform",
    "adapter.dropout",      "adapter.save"};

bool is_set(const Config& config, const std::string& key) {
  return config_value(config, key) != config_value(Config(), key);
}

// The folder's options as the section of a configuration.
AdapterSection section_of(const LoraOptions& options) {
  AdapterSection section;
  section.rank = options.rank;
  section.alpha = options.alpha;
  section.use_rslora = options.use_rslora;
  section.use_dora = options.use_dora;
  section.targets = options.targets;
  section.exclude = options.exclude;
  section.layers_to_transform = options.layers_to_transform;
  for (const auto& [name, rank] : options.rank_pattern) {
    section.rank_pattern.push_back({name, static_cast<double>(rank)});
  }
  for (const auto& [name, alpha] : options.alpha_pattern) {
    section.alpha_pattern.push_back({name, alpha});
  }
  section.dropout = options.dropout;
  section.save = options.save;
  return section;
}

// The folder's section with the keys that `config` sets.
AdapterSection wanted_section(const Config& config, const AdapterSection& of_folder) {
  const AdapterSection& own = config.adapter;
  AdapterSection wanted = of_folder;
  const auto take = [&](const char* key, auto AdapterSection::* member) {
    if (is_set(config, key)) wanted.*member = own.*member;
  };
  take("adapter.rank", &AdapterSection::rank);
  take("adapter.alpha", &AdapterSection::alpha);
  take("adapter.use_rslora", &AdapterSection::use_rslora);
  take("adapter.use_dora", &AdapterSection::use_dora);
  take("adapter.targets", &AdapterSection::targets);
  take("adapter.exclude", &AdapterSection::exclude);
  take("adapter.layers_to_transform", &AdapterSection::layers_to_transform);
  take("adapter.rank_pattern", &AdapterSection::rank_pattern);
  take("adapter.alpha_pattern", &AdapterSection::alpha_pattern);
  take("adapter.dropout", &AdapterSection::dropout);
  take("adapter.save", &AdapterSection::save);
  return wanted;
}

bool is_same_module(const LoraModule& a, const LoraModule& b) {
  return a.name == b.name && a.begin == b.begin && a.num_rows == b.num_rows && a.rank == b.rank &&
         a.scale == b.scale;
}

bool is_same(const AdapterTargets& a, const AdapterTargets& b) {
  return a.dropout == b.dropout && a.use_dora == b.use_dora && a.trained == b.trained &&
         std::ranges::equal(a.weights, b.weights, [](const auto& one, const auto& other) {
           return one.first == other.first &&
                  std::ranges::equal(one.second, other.second, is_same_module);
         });
}

// Options that fit no module differ from those of a folder, which does.
bool means_the_same(const LoraOptions& wanted, const LoraOptions& of_folder,
                    const DecoderConfig& base) {
  try {
    return is_same(find_lora_targets(base, wanted), find_lora_targets(base, of_folder));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_options_of_folder(const Config& config, const LoraOptions& of_folder,
                             const DecoderConfig& base) {
  Config theirs = config;
  theirs.adapter = section_of(of_folder);
  const LoraOptions wanted = lora_options(wanted_section(config, theirs.adapter));
  if (means_the_same(wanted, of_folder, base)) return;
  for (const char* key : kKeys) {
    const std::string own = config_value(config, key);
    const std::string other = config_value(theirs, key);
    if (!is_set(config, key) || own == other) continue;
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} is {:.200}, but the adapter of adapter.path ({}) has {:.200}", key,
                            own, config.adapter.path, other),
                fmt::format("Leave {} out: an adapter is trained further as it is. For another "
                            "one, leave adapter.path out.",
                            key));
  }
}

}  // namespace packtrain
