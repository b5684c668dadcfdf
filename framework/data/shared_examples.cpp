#include "framework/data/shared_examples.h"

#include <algorithm>
#include <span>
#include <unordered_set>
#include <vector>

#include "framework/core/hash.h"

namespace packtrain {
namespace {

Digest digest_of(const TokenStore& store, std::int64_t example) {
  return digest_bytes(std::as_bytes(store.input_ids(example)));
}

}  // namespace

std::int64_t count_shared_examples(const TokenStore& train, const TokenStore& validation) {
  const auto wanted_lengths = validation.lengths();
  const std::unordered_set<std::int32_t> lengths(wanted_lengths.begin(), wanted_lengths.end());
  std::vector<Digest> wanted;
  for (std::int64_t e = 0; e < std::ssize(wanted_lengths); ++e) {
    wanted.push_back(digest_of(validation, e));
  }
  std::ranges::sort(wanted);
  std::vector<bool> is_shared(wanted.size());
  const ExampleCounts train_lengths = train.lengths();
  for (std::int64_t e = 0; e < std::ssize(train_lengths); ++e) {
    if (!lengths.contains(train_lengths[e]) || train.origin(e).repeat > 0) continue;
    const auto found = std::ranges::equal_range(wanted, digest_of(train, e));
    const auto first = found.begin() - wanted.begin();
    if (found.empty() || is_shared[first]) continue;
    std::fill_n(is_shared.begin() + first, found.size(), true);
  }
  return std::ranges::count(is_shared, true);
}

}  // namespace packtrain
