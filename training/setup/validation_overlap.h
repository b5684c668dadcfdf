// Finds validation examples that are also trained on. They make the validation loss too low.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/data/token_store.h"

namespace packtrain {

struct ValidationOverlap {
  std::string name;  // of the evaluation set, or empty
  std::string path;
  std::int64_t num_examples = 0;  // of the validation store
  std::int64_t num_shared = 0;  // validation examples whose token ids are also a training example's

  std::string what() const;  // a sentence for warnings
};

inline constexpr const char* kOverlapAdvice =
    "Hold some out with `packtrain prepare --validation-fraction`, of all sources at once: copies "
    "then stay on the same side.";

// Nothing when they share no example. Reads all of `validation`, and the examples of `train` that
// have one of its lengths.
std::optional<ValidationOverlap> find_overlap(const TokenStore& train, const std::string& name,
                                              const TokenStore& validation);

// Logs the overlap as a warning at the start of a run. Training stores of more than 2^30 tokens are
// not read.
void warn_of_overlap(const TokenStore& train, const std::string& name,
                     const TokenStore& validation);

}  // namespace packtrain
