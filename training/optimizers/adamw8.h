// AdamW with moments in 8 bits (adamw.h has the formula). Each moment has a code for each element
// and the largest magnitude of each block of 256 elements, float32 (dynamic_map.h). Codes are
// rounded to the nearest number. The update of w reads the moments before they are rounded. Bytes
// an element: master 4 + 4, moments 2 x (1 + 1 + 1/32), grad 4 or 2, weight 2. Deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "training/optimizers/adamw.h"

namespace packtrain {

// Names of the state's tensors.
inline constexpr const char* kExpAvgCodes = "exp_avg_codes";
inline constexpr const char* kExpAvgLargest = "exp_avg_absmax";
inline constexpr const char* kExpAvgSqCodes = "exp_avg_sq_codes";
inline constexpr const char* kExpAvgSqLargest = "exp_avg_sq_absmax";

// The state of zeros: codes that stand for 0 are 127 for the first moment, whose magnitudes of 0
// make any code 0.
std::vector<OptimizerStateSpec> adamw8_state();

// All but the magnitudes are 1-D [n], contiguous and on one device. `state` is in the order of
// adamw8_state(): codes uint8 [n], magnitudes float32 [n / 256 rounded up].
// `ranges` are as for adamw(), and each begins at a block. Throws Error(kInternal) for tensors or
// ranges that do not fit.
void adamw8(const ShardPart& part, std::span<const ShardRange> ranges, const AdamWOptions& options,
            const at::Tensor& clip_factor, const at::Tensor& skip);

std::unique_ptr<Optimizer> make_adamw8(const OptimizerSection& options, std::uint64_t seed);

}  // namespace packtrain
