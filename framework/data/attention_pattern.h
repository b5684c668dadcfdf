// Which keys the queries of one layer see inside a sequence.
#pragma once

#include <algorithm>
#include <cstdint>

namespace packtrain {

// Positions count the tokens of a sequence from 0. All heads of a layer have the same pattern.
// Attention is causal: a query sees its own key and keys before it.
struct AttentionPattern {
  std::int64_t window = 0;  // keys that a query sees, its own included; 0: all before it
  // Positions of a chunk. A query sees the keys of its chunk alone. Chunks begin at the multiples
  // of this number. 0: there are none. A layer has a window or chunks.
  std::int64_t chunk = 0;

  friend bool operator==(const AttentionPattern&, const AttentionPattern&) = default;

  // True where a query sees all keys before it.
  bool is_full() const { return window == 0 && chunk == 0; }
  // The first key that the query at `position` sees. It sees all from there to its own.
  std::int64_t first_key(std::int64_t position) const {
    if (chunk > 0) return position / chunk * chunk;
    return is_full() ? 0 : std::max<std::int64_t>(0, position - window + 1);
  }
  bool sees(std::int64_t query, std::int64_t key) const {
    return key <= query && key >= first_key(query);
  }
  // Number of (query, key) pairs of a sequence of `length` tokens.
  std::int64_t pairs(std::int64_t length) const {
    if (chunk > 0) {
      const std::int64_t rest = length % chunk;
      return length / chunk * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2;
    }
    const std::int64_t seen = is_full() ? length : std::min(window, length);
    return seen * (seen + 1) / 2 + (length - seen) * seen;
  }
  // The same pattern in sequences of up to `length` tokens. A window or a chunk as long as the
  // sequence is full.
  AttentionPattern within(std::int64_t length) const {
    if (chunk > 0) return chunk < length ? *this : AttentionPattern{};
    return window < length ? *this : AttentionPattern{};
  }
};

}  // namespace packtrain
