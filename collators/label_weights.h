// Sums of label weights of examples, computed once for all pieces of an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "framework/data/token_store.h"

namespace packtrain {

// Keeps the sums of recently used examples of one store. Not thread-safe.
class LabelWeights {
 public:
  // The sum of mask weights over all labels of the example. Without a table of weights it is their
  // number. The first call for an example reads its mask.
  double of(const TokenStore& store, std::int64_t example);

 private:
  static constexpr std::size_t kMaxKept = 4096;  // then the table is cleared

  std::unordered_map<std::int64_t, double> sums_;
};

}  // namespace packtrain
