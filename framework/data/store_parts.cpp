#include "framework/data/store_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/data/store_groups.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxExamples = std::numeric_limits<std::uint32_t>::max();

template <typename Value>
void check_same(const char* what, const TokenStore& first, const TokenStore& other,
                const Value& in_first, const Value& in_other) {
  if (in_first == in_other) return;
  throw Error(ErrorCategory::kData,
              fmt::format("data.train: {} has {} {}, {} has {}: their ids do not mean the same",
                          first.folder(), what, in_first, other.folder(), in_other),
              "Make all stores of a run with `packtrain prepare` and the same tokenizer.");
}

}  // namespace

const StoreInfo& check_same_tokens(std::span<const StorePart> parts) {
  const TokenStore* named = nullptr;
  for (const StorePart& part : parts) {
    const TokenStore& first = *parts.front().store;
    const TokenStore& store = *part.store;
    check_is_plain(store, "data.train");  // an epoch of parts divides groups
    check_same("vocabulary size", first, store, first.info().vocab_size, store.info().vocab_size);
    if (store.info().tokenizer_hash.empty()) continue;
    if (named == nullptr) named = &store;
    check_same("tokenizer hash", *named, store, named->info().tokenizer_hash,
               store.info().tokenizer_hash);
  }
  return (named == nullptr ? *parts.front().store : *named).info();
}

std::int64_t num_used(const StorePart& part) {
  return std::llround(part.repeats * static_cast<double>(part.store->info().num_examples));
}

void check_counts(std::span<const StorePart> parts) {
  std::int64_t most = kMaxExamples;
  for (const StorePart& part : parts) {
    const std::int64_t num_examples = part.store->info().num_examples;
    if (part.repeats * static_cast<double>(num_examples) > static_cast<double>(most)) {
      throw Error(ErrorCategory::kData,
                  fmt::format("data.train: with {} repeats of the {} examples of {} an epoch has "
                              "more than {} examples",
                              part.repeats, num_examples, part.store->folder(), kMaxExamples),
                  "Lower repeats; more epochs (run.num_epochs) repeat all stores.");
    }
    if (num_used(part) == 0 && num_examples > 0) {
      throw Error(ErrorCategory::kConfig,
                  fmt::format("data.train: {} repeats of the {} examples of {} are no example",
                              part.repeats, num_examples, part.store->folder()),
                  "Raise its repeats, share or probability, or leave the store out.");
    }
    most -= num_used(part);
  }
}

}  // namespace packtrain
