// Stores of known tokens and pieces of them, for the tests of the collators.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "samplers/plan.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/memory_store.h"

namespace packtrain::test {

using Ints = std::vector<std::int32_t>;

template <typename T>
std::vector<T> values(std::span<T> span) {
  return {span.begin(), span.end()};
}

// Example e has the ids 100 e, 100 e + 1, ...
inline MemoryStore store_of(const Ints& lengths, bool supervised = true, LossWeights weights = {}) {
  std::vector<MemoryExample> examples;
  for (const std::int32_t length : lengths) {
    MemoryExample example{Ints(static_cast<std::size_t>(length)),
                          std::vector<std::uint8_t>(static_cast<std::size_t>(length), supervised)};
    std::iota(example.input_ids.begin(), example.input_ids.end(),
              100 * static_cast<std::int32_t>(examples.size()));
    examples.push_back(std::move(example));
  }
  return MemoryStore(std::move(examples), std::move(weights));
}

inline Piece piece(std::int64_t example, std::int32_t begin, std::int32_t length,
                   bool continues = false) {
  return {.example = example, .begin = begin, .length = length, .continues = continues};
}

inline MicroBatch whole(const MemoryStore& store) {
  MicroBatch pieces;
  for (std::size_t e = 0; e < store.lengths().size(); ++e) {
    pieces.push_back(piece(static_cast<std::int64_t>(e), 0, store.lengths()[e]));
  }
  return pieces;
}

// Options of random plans with 20 examples a step. Examples above 50 tokens are cut or divided.
inline PlanOptions draw_cut_options(std::uint64_t seed) {
  PlanOptions options = draw_options(seed, 200);
  options.too_long = seed % 2 == 0 ? TooLong::kTruncate : TooLong::kSplit;
  options.max_length = 50;
  options.global_batch_size = 20;
  options.global_batch_tokens = 0;
  return options;
}

}  // namespace packtrain::test
