#include "framework/config/offload.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/config/field.h"

namespace packtrain {
namespace {

constexpr std::array<std::pair<std::string_view, Offload>, 4> kOffloads = {
    {{"none", Offload::kNone},
     {"activations", Offload::kActivations},
     {"optimizer", Offload::kOptimizer},
     {"[activations, optimizer]", Offload::kActivationsAndOptimizer}}};

// Throws Error(kConfig) for `auto` or `none` in a list of several.
std::optional<Offload> read_offload(const Setting& setting, const std::vector<std::string>& names) {
  const std::vector<std::size_t> chosen = read_choices(setting, names);
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(chosen, [&](std::size_t index) { return names[index] == name; });
  };
  const bool is_alone = chosen.size() == 1;
  if (is_alone && has("auto")) return std::nullopt;
  if (has("auto") || (has("none") && !is_alone)) {
    reject(setting, list_of(names), "auto and none stand alone.");
  }
  return make_offload(has("activations"), has("optimizer"));
}

}  // namespace

bool offloads_activations(std::optional<Offload> offload) {
  return offload == Offload::kActivations || offload == Offload::kActivationsAndOptimizer;
}

bool offloads_optimizer(std::optional<Offload> offload) {
  return offload == Offload::kOptimizer || offload == Offload::kActivationsAndOptimizer;
}

Offload make_offload(bool activations, bool optimizer) {
  if (activations && optimizer) return Offload::kActivationsAndOptimizer;
  if (optimizer) return Offload::kOptimizer;
  return activations ? Offload::kActivations : Offload::kNone;
}

std::string offload_text(Offload offload) {
  const auto found =
      std::ranges::find(kOffloads, offload, &decltype(kOffloads)::value_type::second);
  return std::string(found->first);
}

std::optional<Offload> parse_offload(std::string_view text) {
  const auto found = std::ranges::find(kOffloads, text, &decltype(kOffloads)::value_type::first);
  return found == kOffloads.end() ? std::nullopt : std::optional(found->second);
}

Field offload_or_auto(const char* name, std::optional<Offload>& member) {
  const std::vector<std::string> names = {"auto", "none", "activations", "optimizer"};
  const auto read = [=, &member](const Setting& setting) { member = read_offload(setting, names); };
  const auto write = [&member] { return member ? offload_text(*member) : std::string("auto"); };
  return {.name = name, .wanted = list_of(names), .read = read, .write = write, .choices = names};
}

}  // namespace packtrain
