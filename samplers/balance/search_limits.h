// Limits that the searches for exchanges (exchange.h) and trades (trade.h) share.
#pragma once

#include <cstddef>

namespace packtrain {

// Relative distance to the best possible time that is not worth more work.
inline constexpr double kClose = 1e-3;
inline constexpr double kSmallestGain = 1e-9;  // relative; smaller gains are rounding errors
inline constexpr std::size_t kMaxPaired = 24;  // items of a bin from which pairs are made

}  // namespace packtrain
