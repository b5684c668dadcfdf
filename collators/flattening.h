// The flattening collator: pieces laid end to end, position IDs restarting, no padding between.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/data/token_store.h"

namespace packtrain {

// How supervised tokens are weighed so that summing weight * loss over every token of every rank
// and micro-batch of the optimizer step gives the step's loss.
struct LossNormalization {
  Normalize mode = Normalize::kTokens;
  std::int64_t num_loss_tokens = 1;  // kTokens: weight = 1 / num_loss_tokens (of the whole step)
  std::int64_t num_examples = 1;  // kExamples: weight = 1 / (num_examples * example's loss tokens)
};

struct FlatteningOptions {
  std::int32_t row_multiple = 128;  // num_tokens is rounded up with one dummy sequence
};

// Where the batch's bytes live: called once with the size wanted. Empty = PackedBatch::storage.
using HostAllocator = std::function<std::span<std::byte>(std::size_t)>;

// Builds the batch of `pieces` (may be empty: only the dummy sequence, no supervised row). The
// dummy sequence has id 0, labels -100 and consecutive positions. A piece that ends before its
// example does keeps the label of its last token when that next token is supervised.
PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const FlatteningOptions& options = {},
                    const HostAllocator& allocate = {});

// cu_seqlens from position IDs alone: a sequence starts where a position is 0 (the mechanism of
// arXiv 2407.09105). For callers without boundaries; equal to the planned ones (tested).
std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids);

}  // namespace packtrain
