#include "framework/data/shared_examples.h"

#include <map>
#include <span>
#include <unordered_set>

#include "framework/support/hash.h"

namespace packtrain {

std::int64_t count_shared_examples(const TokenStore& train, const TokenStore& validation) {
  const auto digest_of = [](const TokenStore& store, std::int64_t example) {
    return digest_bytes(std::as_bytes(store.input_ids(example)));
  };
  const auto wanted_lengths = validation.lengths();
  const std::unordered_set<std::int32_t> lengths(wanted_lengths.begin(), wanted_lengths.end());
  std::map<Digest, std::int64_t> counts;  // of examples of `validation`
  for (std::int64_t e = 0; e < std::ssize(wanted_lengths); ++e) ++counts[digest_of(validation, e)];
  std::int64_t num_shared = 0;
  for (std::int64_t e = 0; e < std::ssize(train.lengths()) && !counts.empty(); ++e) {
    if (!lengths.contains(train.lengths()[e]) || train.origin(e).repeat > 0) continue;
    const auto found = counts.find(digest_of(train, e));
    if (found == counts.end()) continue;
    num_shared += found->second;
    counts.erase(found);
  }
  return num_shared;
}

}  // namespace packtrain
