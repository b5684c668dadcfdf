#include "models/adapters/lora_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

// In the order of LoraInitialization.
constexpr std::array kInitializations = {"default", "gaussian", "pissa", "pissa_niter", "loftq"};

// Other texts are of versions that had the default alone.
LoraInitialization parse_initialization(const std::string& text) {
  const auto found = std::ranges::find(kInitializations, text);
  if (found == kInitializations.end()) return LoraInitialization::kDefault;
  return static_cast<LoraInitialization>(found - kInitializations.begin());
}

}  // namespace

// Patterns are lists of pairs, because their order counts.
std::string lora_options_text(const LoraOptions& options) {
  Json json = {{"kind", "lora"},
               {"rank", options.rank},
               {"alpha", options.alpha},
               {"use_rslora", options.use_rslora},
               {"targets", options.targets},
               {"exclude", options.exclude},
               {"layers_to_transform", options.layers_to_transform},
               {"rank_pattern", options.rank_pattern},
               {"alpha_pattern", options.alpha_pattern},
               {"dropout", options.dropout},
               {"init", kInitializations.at(static_cast<std::size_t>(options.initialization))},
               {"save", options.save}};
  if (!options.name.empty()) json["name"] = options.name;
  if (options.use_dora) json["use_dora"] = true;
  if (options.num_iterations > 0) json["num_iterations"] = options.num_iterations;
  return json.dump();
}

std::string lora_list_text(std::span<const LoraOptions> list) {
  if (list.size() == 1) return lora_options_text(list.front());
  Json json = Json::array();
  for (const LoraOptions& options : list) json.push_back(Json::parse(lora_options_text(options)));
  return json.dump();
}

bool has_several_adapters(const std::string& text) {
  return text.starts_with('[');
}

bool has_magnitudes(const std::string& text) {
  return std::ranges::any_of(parse_lora_list(text, "adapter"), &LoraOptions::use_dora);
}

std::vector<LoraOptions> parse_lora_list(const std::string& text, const std::string& where) {
  if (!has_several_adapters(text)) return {parse_lora_options(text, where)};
  std::vector<LoraOptions> list;
  for (const Json& json : Json::parse(text)) {
    list.push_back(parse_lora_options(json.dump(), where));
    if (list.back().name.empty()) {
      throw Error(ErrorCategory::kCheckpoint,
                  fmt::format("{}: its adapters are damaged: one has no name", where),
                  "Use an older checkpoint.");
    }
  }
  return list;
}

LoraOptions parse_lora_options(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    LoraOptions options;
    options.name = json.value("name", "");
    json.at("rank").get_to(options.rank);
    json.at("alpha").get_to(options.alpha);
    json.at("use_rslora").get_to(options.use_rslora);
    json.at("targets").get_to(options.targets);
    json.at("exclude").get_to(options.exclude);
    json.at("layers_to_transform").get_to(options.layers_to_transform);
    json.at("rank_pattern").get_to(options.rank_pattern);
    json.at("alpha_pattern").get_to(options.alpha_pattern);
    json.at("dropout").get_to(options.dropout);
    json.at("save").get_to(options.save);
    options.use_dora = json.value("use_dora", false);
    options.initialization = parse_initialization(json.at("init"));
    options.num_iterations = json.value("num_iterations", std::int64_t{0});
    if (options.rank < 1) throw Error(ErrorCategory::kCheckpoint, "'rank' is below 1");
    return options;
  } catch (const std::exception& error) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{}: its adapter is damaged: {}", where, error.what()),
                "Use an older checkpoint.");
  }
}

}  // namespace packtrain
