// Element-wise reduction of several ranks' data in one fixed order.
#pragma once

#include <cstddef>
#include <span>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// output[i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) ..., in the order of the ranks. The
// order does not depend on timing, so results repeat bit by bit. bfloat16 is accumulated in float32
// and rounded once, to nearest even. `output` may be one of the inputs. Throws Error(kInternal) for
// float16.
void reduce_in_order(std::span<const std::byte* const> inputs, std::byte* output, std::size_t count,
                     DataType type, ReduceOp op);

}  // namespace packtrain
