#include "training/evaluation/next_token.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace packtrain {
namespace {

std::int32_t likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t id = 1; id < logits.size(); ++id) {
    const bool replaces_none = std::isnan(logits[best]) && !std::isnan(logits[id]);
    if (logits[id] > logits[best] || replaces_none) best = id;
  }
  return static_cast<std::int32_t>(best);
}

// Not normalized; the largest is 1.
std::vector<double> weights_of(std::span<const float> logits, double highest, double temperature) {
  std::vector<double> weights(logits.size());
  std::ranges::transform(logits, weights.begin(), [&](float logit) {
    return std::exp((static_cast<double>(logit) - highest) / temperature);
  });
  return weights;
}

// The ids by descending weight, of equal ones the lower first, up to the first at which the sum of
// weights reaches `wanted`.
std::vector<std::int32_t> heaviest(std::span<const double> weights, double wanted) {
  std::vector<std::int32_t> ids(weights.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::ranges::greater{},
                           [&](std::int32_t id) { return weights[id]; });
  double sum = 0;
  std::size_t count = 0;
  while (count < ids.size() && (count == 0 || sum < wanted)) sum += weights[ids[count++]];
  ids.resize(count);
  return ids;
}

}  // namespace

std::int32_t choose_token(std::span<const float> logits, const NextTokenOptions& options,
                          double uniform) {
  const std::int32_t best = likeliest(logits);
  if (options.temperature == 0) return best;
  const std::vector<double> weights = weights_of(logits, logits[best], options.temperature);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!std::isfinite(all)) return best;
  const std::vector<std::int32_t> ids = heaviest(weights, options.top_p * all);
  double kept = 0;
  for (const std::int32_t id : ids) kept += weights[id];
  double left = uniform * kept;
  for (const std::int32_t id : ids) {
    left -= weights[id];
    if (left < 0) return id;
  }
  return ids.back();  // reached only by rounding
}

}  // namespace packtrain
