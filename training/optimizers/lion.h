// Lion (Chen et al., "Symbolic discovery of optimization algorithms", arXiv 2302.06675).
//    g = clip_factor * grad; c = b1 m + (1 - b1) g; w = w (1 - lr wd) - lr sign(c);
//    m = b2 m + (1 - b2) g
#pragma once

#include <cstdint>
#include <memory>

#include "training/optimizers/optimizer.h"

namespace packtrain {

inline constexpr const char* kLionExpAvg = "lion_exp_avg";  // name of the state's tensor

std::unique_ptr<Optimizer> make_lion(const OptimizerSection& options, std::uint64_t seed);

}  // namespace packtrain
