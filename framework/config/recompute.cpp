#include "framework/config/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

namespace packtrain {
namespace {

constexpr std::array<std::pair<std::string_view, Recompute>, 3> kNames = {
    {{"none", Recompute::kNone}, {"selective", Recompute::kSelective}, {"full", Recompute::kFull}}};
constexpr std::size_t kMaxDigits = 4;  // of layers
constexpr std::size_t kMaxRowDigits = 9;

std::string_view name_of(Recompute recompute) {
  return kNames.at(static_cast<std::size_t>(recompute)).first;
}

std::optional<Recompute> named(std::string_view name) {
  for (const auto& [known, recompute] : kNames) {
    if (known == name) return recompute;
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(std::string_view digits,
                                      std::size_t max_digits = kMaxDigits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  const bool is_number = error == std::errc() && end == digits.end();
  if (!is_number || number < 1 || digits.size() > max_digits) return std::nullopt;
  return number;
}

// More layers recompute, or the same layers more, with each of these.
bool has_order(const RecomputeByLayer& recompute) {
  if (recompute.num_first == 0) return true;
  return recompute.first == Recompute::kSelective
             ? recompute.rest == Recompute::kNone
             : recompute.first == Recompute::kFull && recompute.rest == Recompute::kSelective;
}

std::optional<RecomputeByLayer> parse_layers(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const auto all = named(text);
    return all ? std::optional<RecomputeByLayer>(*all) : std::nullopt;
  }
  const std::string_view layers = text.substr(colon + 1);
  const std::size_t plus = std::min(layers.find('+'), layers.size());
  const auto first = named(text.substr(0, colon));
  const auto number = number_in(layers.substr(0, plus));
  const auto rest =
      plus == layers.size() ? std::optional(Recompute::kNone) : named(layers.substr(plus + 1));
  if (!first || !number || !rest) return std::nullopt;
  return RecomputeByLayer(*first, *number, *rest);
}

}  // namespace

std::string recompute_text(const RecomputeByLayer& recompute) {
  const std::string rows = recompute.num_rows > 0 ? fmt::format("@{}", recompute.num_rows) : "";
  if (recompute.num_first == 0) return fmt::format("{}{}", name_of(recompute.rest), rows);
  std::string text = fmt::format("{}:{}", name_of(recompute.first), recompute.num_first);
  if (recompute.rest != Recompute::kNone) text += fmt::format("+{}", name_of(recompute.rest));
  return text + rows;
}

std::vector<RecomputeByLayer> recompute_steps(std::int64_t num_layers) {
  std::vector<RecomputeByLayer> steps = {Recompute::kNone};
  for (std::int64_t num = 1; num < num_layers; ++num) {
    steps.emplace_back(Recompute::kSelective, num, Recompute::kNone);
  }
  steps.emplace_back(Recompute::kSelective);
  for (std::int64_t num = 1; num < num_layers; ++num) {
    steps.emplace_back(Recompute::kFull, num, Recompute::kSelective);
  }
  steps.emplace_back(Recompute::kFull);
  return steps;
}

std::optional<RecomputeByLayer> parse_recompute(std::string_view text) {
  const std::size_t at = std::min(text.find('@'), text.size());
  std::optional<RecomputeByLayer> recompute = parse_layers(text.substr(0, at));
  if (!recompute || at == text.size()) return recompute;
  const auto rows = number_in(text.substr(at + 1), kMaxRowDigits);
  if (!rows || !has_order(*recompute)) return std::nullopt;
  recompute->num_rows = *rows;
  return recompute;
}

std::vector<std::string> recompute_names() {
  std::vector<std::string> names;
  for (const auto& [name, recompute] : kNames) names.emplace_back(name);
  return names;
}

}  // namespace packtrain
