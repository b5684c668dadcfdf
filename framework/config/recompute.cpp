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
constexpr std::size_t kMaxDigits = 4;

std::string_view name_of(Recompute recompute) {
  return kNames.at(static_cast<std::size_t>(recompute)).first;
}

std::optional<Recompute> named(std::string_view name) {
  for (const auto& [known, recompute] : kNames) {
    if (known == name) return recompute;
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  const bool is_number = error == std::errc() && end == digits.end();
  if (!is_number || number < 1 || digits.size() > kMaxDigits) return std::nullopt;
  return number;
}

}  // namespace

std::string recompute_text(const RecomputeByLayer& recompute) {
  if (recompute.num_first == 0) return std::string(name_of(recompute.rest));
  std::string text = fmt::format("{}:{}", name_of(recompute.first), recompute.num_first);
  if (recompute.rest != Recompute::kNone) text += fmt::format("+{}", name_of(recompute.rest));
  return text;
}

std::optional<RecomputeByLayer> parse_recompute(std::string_view text) {
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

std::vector<std::string> recompute_names() {
  std::vector<std::string> names;
  for (const auto& [name, recompute] : kNames) names.emplace_back(name);
  return names;
}

}  // namespace packtrain
