// Which sequences of a batch the kernels for short ones have, by predicted times.
//
// A prediction of the backward, in microseconds on an H100 (132 multiprocessors):
//    short   a tile of 64 queries against 128 keys takes 5.0 for heads of 128 and 3.1 for heads of
//            64. A block of threads has all tiles of a unit and of the query heads of one key head,
//            so the longest unit bounds the time from below.
//    cuDNN   60, and for 32 heads of 128: 0.006 a token of the batch, 0.049 a token and 65 a
//            million of (query, key) pairs of its own sequences
// Fitted to `operator_benchmark --filter "divided attention"` (cuDNN 9.19): packs of one length, of
// FLAN-like, OrcaMath-like and lognormal lengths. On other GPUs the same ratios are assumed.
#pragma once

#include <cstdint>
#include <span>

#include "models/ops/attention/attention.h"

namespace packtrain {

// Returns the largest number of keys of a sequence that is short, 0 for none. Boundaries are those
// of attention_units(). `has_hopper` says whether the kernels have Hopper's instructions.
std::int64_t choose_short_limit(std::span<const std::int32_t> first_queries,
                                std::span<const std::int32_t> first_keys,
                                const AttentionShape& shape, int num_multiprocessors,
                                bool has_hopper);

}  // namespace packtrain
