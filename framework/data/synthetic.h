// Token stores with random ids and lengths of a given distribution, for benchmarks and tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/data/token_store.h"

namespace packtrain {

// length = round(exp(mu + sigma * normal)), clipped to min_length..max_length tokens.
struct LognormalLengths {
  double mu = 0.0;
  double sigma = 0.0;
  std::int32_t min_length = 1;
  std::int32_t max_length = 1 << 20;
};

struct SyntheticOptions {
  LognormalLengths lengths;
  std::int64_t num_examples = 0;
  std::int64_t vocab_size = 0;
  // part of each example, at its end, like a completion after a prompt
  double supervised_fraction = 1.0;
  std::uint64_t seed = 0;
};

// Parses "lognormal:MU,SIGMA[,MIN,MAX]" or "constant:LENGTH" (MIN = MAX = LENGTH). Throws
// Error(kConfig) with the text and the expected form.
LognormalLengths parse_lengths(std::string_view text);

// Ids are uniform over the vocabulary. The store depends only on the options. Throws Error(kConfig)
// for invalid options, Error(kData) when writing fails.
StoreInfo prepare_synthetic(const SyntheticOptions& options, const std::string& out,
                            bool overwrite);

}  // namespace packtrain
