// Tokens whose log-probabilities are wanted after the last token of an example. The example has
// them neither as inputs nor as labels. So several continuations of one context share a forward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "collators/packed_batch.h"
#include "framework/core/safetensors.h"
#include "framework/data/token_store.h"
#include "models/block/batch.h"

namespace packtrain {

class CandidateTokens {
 public:
  // A safetensors file: offsets int64 [num_examples + 1] and ids int32 [offsets' last]. Example e
  // has ids[offsets[e]] to ids[offsets[e + 1] - 1]. Throws Error(kData) when it does not fit the
  // store, or when the store has several sources: their losses are of labels alone.
  CandidateTokens(const std::string& path, const TokenStore& store);

  std::span<const std::int32_t> of(std::int64_t example) const;
  std::span<const std::int64_t> offsets() const { return offsets_; }
  // A digest of the file's tensors.
  std::string digest() const;
  // Adds rows without weight to the supervised rows: those of the first example, then of the next
  // one, as `packed` has them.
  void add_rows(const PackedBatch& packed, DeviceBatch& batch) const;

 private:
  std::shared_ptr<const SafetensorsFile> file_;
  std::span<const std::int64_t> offsets_;
  std::span<const std::int32_t> ids_;
};

}  // namespace packtrain
