// The examples a run trains on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "parallel/communicator.h"
#include "samplers/selection.h"

namespace packtrain {

// data.train, several stores joined (framework/data/joined_store.h). Throws Error(kData), and
// Error(kConfig) when a store is named twice.
std::unique_ptr<TokenStore> open_training_store(const DataSection& data);

// The store's fingerprint. The first rank of each host (`local_rank` 0) reads the lengths for it,
// and the store of every rank keeps what it found. Collective. Throws, the same on every rank,
// what reading threw on the first rank where it did, and Error(kData) where a host's store is
// another one than that of rank 0.
std::string share_fingerprint(const TokenStore& store, int local_rank, const std::string& host,
                              Communicator& control);

inline constexpr const char* kExceedsMaxPositionsAdvice =
    "Lower data.max_length, or give the model a rope_scaling.";

inline constexpr const char* kTruncatedToEmptyAdvice =
    "Raise data.max_length, or choose data.too_long: split.";

// How many examples data.too_long: truncate leaves nothing of that is learned; empty where none.
std::string truncated_to_empty(const SelectionCounts& losses, const TokenStore& store,
                               const DataSection& data);

// Why the longest example, as data.max_length leaves it, has more tokens than the model knows
// positions (0: any number); empty where it has not.
std::string exceeds_max_positions(const TokenStore& store, const DataSection& data,
                                  std::int64_t max_positions);

}  // namespace packtrain
