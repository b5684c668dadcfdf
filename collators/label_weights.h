// What the labels of examples weigh together, summed once for all pieces of an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "framework/data/token_store.h"

namespace packtrain {

// Of the examples of one store that were asked for last. One thread at a time.
class LabelWeights {
 public:
  // The sum over all labels of the example: their number where the store has no table of weights.
  // Reads the example's mask when it is asked for first.
  double of(const TokenStore& store, std::int64_t example);

 private:
  static constexpr std::size_t kMaxKept = 4096;  // then it begins anew

  std::unordered_map<std::int64_t, double> sums_;
};

}  // namespace packtrain
