#include "benchmarks/ops/documents.h"

#include <fmt/format.h>

#include <algorithm>

namespace packtrain {

Documents rising_documents(std::int32_t mean, std::int32_t tokens) {
  constexpr std::int32_t kSteps = 7;
  Documents documents{fmt::format("documents of mean {}, {} tokens", mean, tokens), {0}};
  for (std::int32_t i = 0; documents.boundaries.back() < tokens; ++i) {
    const std::int32_t length = mean * (1 + i % kSteps) / 4;
    documents.boundaries.push_back(std::min(tokens, documents.boundaries.back() + length));
  }
  return documents;
}

}  // namespace packtrain
