// Interpolation of a curve through few points.
#pragma once

#include <optional>
#include <span>

namespace packtrain {

struct CurvePoint {
  double x = 0;
  double y = 0;
};

// y at `x` on the straight line between the two points around it. `points` ascend in x. Nothing
// before the first point and after the last one: a curve is not extrapolated.
std::optional<double> interpolate(std::span<const CurvePoint> points, double x);

// The first x at which the lines between the points reach `y` or less. Nothing when they stay above
// it.
std::optional<double> first_at_most(std::span<const CurvePoint> points, double y);

}  // namespace packtrain
