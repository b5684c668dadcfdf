#include "training/comparison/interpolation.h"

#include <algorithm>

namespace packtrain {

std::optional<double> interpolate(std::span<const CurvePoint> points, double x) {
  const auto right = std::ranges::lower_bound(points, x, {}, &CurvePoint::x);
  if (right == points.end()) return std::nullopt;
  if (right->x == x) return right->y;
  if (right == points.begin()) return std::nullopt;
  const auto left = right - 1;
  return left->y + (right->y - left->y) * (x - left->x) / (right->x - left->x);
}

}  // namespace packtrain
