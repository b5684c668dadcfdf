// The arrays of a batch that describe its groups.
#pragma once

#include <cstddef>

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// Sizes of the arrays. All are 0 for a plain store.
struct GroupShape {
  std::size_t num_examples = 0;
  std::size_t num_margins = 0;    // num_examples, or 0
  std::size_t num_reference = 0;  // supervised rows, or 0
  std::size_t num_columns = 0;    // columns times supervised rows
};

GroupShape group_shape(const TokenStore& store, const MicroBatch& pieces,
                       std::size_t num_loss_tokens, const CollatorOptions& options);

// Fills them. The other arrays of `batch` are complete. Throws Error(kData) when options.reference
// has another number of values than an example has labels.
void fill_groups(const TokenStore& store, const MicroBatch& pieces,
                 const LossNormalization& normalization, const CollatorOptions& options,
                 PackedBatch& batch);

}  // namespace packtrain
