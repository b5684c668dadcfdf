#include "framework/data/store_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

#include "framework/core/error.h"
#include "framework/data/group_format.h"

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

std::string kind_of(const TokenStore& store) {
  const StoreInfo& info = store.info();
  return info.groups ? fmt::format("groups of the kind '{}'", name_of(info.groups->kind))
                     : std::string("plain examples");
}

void check_same_kind(const TokenStore& first, const TokenStore& other) {
  const auto fail = [&](const std::string& in_first, const std::string& in_other) {
    throw Error(ErrorCategory::kData,
                fmt::format("data.train: {} has {}, {} has {}", first.folder(), in_first,
                            other.folder(), in_other),
                "A run trains stores of one kind, with the same columns of tokens.");
  };
  if (kind_of(first) != kind_of(other)) fail(kind_of(first), kind_of(other));
  const auto columns_of = [](const TokenStore& store) {
    return fmt::format("the columns of tokens [{}]", fmt::join(store.info().token_columns, ", "));
  };
  if (first.info().token_columns != other.info().token_columns) {
    fail(columns_of(first), columns_of(other));
  }
}

}  // namespace

const StoreInfo& check_same_tokens(std::span<const StorePart> parts) {
  const TokenStore* named = nullptr;
  for (const StorePart& part : parts) {
    const TokenStore& first = *parts.front().store;
    const TokenStore& store = *part.store;
    check_same_kind(first, store);
    check_same("vocabulary size", first, store, first.info().vocab_size, store.info().vocab_size);
    if (store.info().tokenizer_hash.empty()) continue;
    if (named == nullptr) named = &store;
    check_same("tokenizer hash", *named, store, named->info().tokenizer_hash,
               store.info().tokenizer_hash);
  }
  return (named == nullptr ? *parts.front().store : *named).info();
}

std::int64_t num_units_of(const TokenStore& store) {
  const StoreInfo& info = store.info();
  return info.groups ? info.groups->num_groups : info.num_examples;
}

std::int64_t num_used(const StorePart& part) {
  return std::llround(part.repeats * static_cast<double>(num_units_of(*part.store)));
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
    const char* const unit = part.store->info().groups ? "group" : "example";
    if (num_used(part) == 0 && num_examples > 0) {
      throw Error(ErrorCategory::kConfig,
                  fmt::format("data.train: {} repeats of the {} {}s of {} are no {}", part.repeats,
                              num_units_of(*part.store), unit, part.store->folder(), unit),
                  "Raise its repeats, share or probability, or leave the store out.");
    }
    most -= std::llround(part.repeats * static_cast<double>(num_examples));
  }
}

}  // namespace packtrain
