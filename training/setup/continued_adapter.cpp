#include "training/setup/continued_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "models/adapters/lora_targets.h"
#include "training/setup/lora_section.h"

namespace packtrain {
namespace {

using Take = void (*)(AdapterSection& to, const AdapterSection& from);

template <auto Member>
void take(AdapterSection& to, const AdapterSection& from) {
  to.*Member = from.*Member;
}

struct OptionKey {
  const char* name;
  Take take;
};

// The keys that a folder decides on.
constexpr OptionKey kKeys[] = {
    {"adapter.rank", take<&AdapterSection::rank>},
    {"adapter.alpha", take<&AdapterSection::alpha>},
    {"adapter.use_rslora", take<&AdapterSection::use_rslora>},
    {"adapter.use_dora", take<&AdapterSection::use_dora>},
    {"adapter.targets", take<&AdapterSection::targets>},
    {"adapter.exclude", take<&AdapterSection::exclude>},
    {"adapter.rank_pattern", take<&AdapterSection::rank_pattern>},
    {"adapter.alpha_pattern", take<&AdapterSection::alpha_pattern>},
    {"adapter.layers_to_transform", take<&AdapterSection::layers_to_transform>},
    {"adapter.dropout", take<&AdapterSection::dropout>},
    {"adapter.save", take<&AdapterSection::save>}};

// The folder's section with the keys that `config` sets.
AdapterSection wanted_section(const Config& config, const AdapterSection& of_folder) {
  AdapterSection wanted = of_folder;
  for (const OptionKey& key : kKeys) {
    if (sets_adapter_key(config, key.name)) key.take(wanted, config.adapter);
  }
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
  theirs.adapter = adapter_section(of_folder);
  const LoraOptions wanted = lora_options(wanted_section(config, theirs.adapter));
  if (means_the_same(wanted, of_folder, base)) return;
  for (const auto& [key, _] : kKeys) {
    const std::string own = config_value(config, key);
    const std::string other = config_value(theirs, key);
    if (!sets_adapter_key(config, key) || own == other) continue;
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} is {:.200}, but the adapter of adapter.path ({}) has {:.200}", key,
                            own, config.adapter.path, other),
                fmt::format("Leave {} out: an adapter is trained further as it is. For another "
                            "one, leave adapter.path out.",
                            key));
  }
}

}  // namespace packtrain
