// Rows that a model has beyond those of its Hugging Face folder: tokens added to its vocabulary.
#pragma once

#include "framework/support/safetensors.h"
#include "models/families/weight_map.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Fills the part of `shard` that lies behind the rows of `piece`, which is all that `tensor` has of
// its parameter, with their mean: summed in float64 in the order of rows, so that any rank that
// owns a part has the same. Reads all of the tensor where the shard has such a part.
// Throws Error(kInternal) when the parameter's other dimensions are not the tensor's.
void fill_new_rows(const TensorView& tensor, const WeightPiece& piece, const ShardView& shard);

}  // namespace packtrain
