#include "launch/cli/precision_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace packtrain {
namespace {

constexpr std::size_t kColumnWidth = 12;

std::string row(const std::string& name, std::size_t name_width,
                const std::vector<std::string>& values) {
  std::string text = fmt::format("{:<{}}", name, name_width);
  for (const std::string& value : values) text += fmt::format("  {:>{}}", value, kColumnWidth);
  return text + "\n";
}

std::string percent(double error) {
  return fmt::format("{:.3g} %", 100 * error);
}

}  // namespace

std::string precision_text(const PrecisionReport& report) {
  std::string text =
      fmt::format("{} examples, loss {:.6g} in float32. Errors relative to float32:\n",
                  report.num_examples, report.loss);
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < report.recipes.size(); ++i) {
    numbers.push_back(fmt::format("recipe {}", i + 1));
    text += fmt::format("recipe {}: {}\n", i + 1, report.recipes[i].name);
  }
  std::size_t width = std::string("all gradients").size();
  for (const std::string& layer : report.layers) width = std::max(width, layer.size());
  text += row("", width, numbers);
  const auto add = [&](const std::string& name, const auto& error_of) {
    std::vector<std::string> values;
    for (const RecipeErrors& recipe : report.recipes) values.push_back(percent(error_of(recipe)));
    text += row(name, width, values);
  };
  add("loss", [](const RecipeErrors& recipe) { return recipe.loss; });
  add("all gradients", [](const RecipeErrors& recipe) { return recipe.gradient; });
  for (std::size_t layer = 0; layer < report.layers.size(); ++layer) {
    add(report.layers[layer],
        [&](const RecipeErrors& recipe) { return recipe.by_layer.at(layer); });
  }
  return text;
}

std::string precision_json(const PrecisionReport& report) {
  nlohmann::ordered_json json = {{"num_examples", report.num_examples},
                                 {"loss", report.loss},
                                 {"recipes", nlohmann::ordered_json::array()}};
  for (const RecipeErrors& recipe : report.recipes) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < report.layers.size(); ++i) {
      layers[report.layers[i]] = recipe.by_layer.at(i);
    }
    json["recipes"].push_back({{"name", recipe.name},
                               {"loss_error", recipe.loss},
                               {"gradient_error", recipe.gradient},
                               {"gradient_errors_by_layer", layers}});
  }
  return json.dump() + "\n";
}

}  // namespace packtrain
