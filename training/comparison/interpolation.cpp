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

std::optional<double> first_at_most(std::span<const CurvePoint> points, double y) {
  const auto right = std::ranges::find_if(points, [y](const CurvePoint& p) { return p.y <= y; });
  if (right == points.end()) return std::nullopt;
  if (right == points.begin()) return right->x;
  const auto left = right - 1;
  return left->x + (right->x - left->x) * (left->y - y) / (left->y - right->y);
}

}  // namespace packtrain
