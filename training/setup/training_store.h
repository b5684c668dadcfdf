// Opens and checks the store that a run trains on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/communicator.h"
#include "samplers/selection.h"

namespace packtrain {

// Opens data.train. Several stores are joined (framework/data/joined_store.h), plain ones as groups
// of one where another holds turns (framework/data/turn_store.h). Throws Error(kData),
// also for stores that objective.kind does not read (store_kind.h), and Error(kConfig) when a store
// is named twice.
std::unique_ptr<TokenStore> open_training_store(const Config& config);

// What a run trains on, or each of several adapters.
struct TrainingStores {
  std::vector<Config> configs;                   // adapter_configs()
  std::unique_ptr<TokenStore> all;               // those of several adapters one after another
  std::vector<std::unique_ptr<TokenStore>> own;  // of several adapters, else empty

  bool are_several() const { return !own.empty(); }
  const TokenStore& of(std::size_t adapter) const { return own.empty() ? *all : *own[adapter]; }
};

// Throws as open_training_store().
TrainingStores open_training_stores(const Config& config);

// The store's fingerprint. The first rank of each host (`local_rank` 0) reads the lengths for it,
// and the store object of every rank caches the result. Collective. Throws the error of the first
// rank whose reading failed, the same on every rank. Throws Error(kData) when a host's store
// differs from rank 0's.
std::string share_fingerprint(const TokenStore& store, int local_rank, const std::string& host,
                              Communicator& control);

inline constexpr const char* kExceedsMaxPositionsAdvice =
    "Lower data.max_length, or give the model a rope_scaling.";

inline constexpr const char* kTruncatedToEmptyAdvice =
    "Raise data.max_length, or choose data.too_long: split.";

// Number of examples without a supervised token after data.too_long: truncate, as a sentence. Empty
// when there are none.
std::string truncated_to_empty(const SelectionCounts& losses, const TokenStore& store,
                               const DataSection& data);

// Why the longest example, after data.max_length, has more tokens than the model has positions (0:
// any number). Empty when it fits.
std::string exceeds_max_positions(const TokenStore& store, const DataSection& data,
                                  std::int64_t max_positions);
// Throws Error(kData) when an example, cut at `max_length`, has more tokens than the model has
// learned positions.
void check_learned_positions(const TokenStore& store, std::int64_t max_length,
                             const DecoderConfig& decoder);

}  // namespace packtrain
