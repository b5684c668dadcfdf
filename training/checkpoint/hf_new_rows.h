// Rows that a model has in addition to those of its Hugging Face folder: added tokens.
#pragma once

#include "framework/core/safetensors.h"
#include "models/families/weight_map.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Fills the elements of `shard` after the rows of `piece` with the mean of the tensor's rows.
// `piece` has all that `tensor` stores of the parameter. The mean is summed in float64 in row
// order, so that all ranks get the same values. Reads the whole tensor when the shard has such
// elements. Throws Error(kInternal) when the other dimensions of parameter and tensor differ.
void fill_new_rows(const TensorView& tensor, const WeightPiece& piece, const ShardView& shard);

}  // namespace packtrain
