#include "framework/data/store_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "framework/core/error.h"
#include "framework/data/group_format.h"

namespace packtrain {
namespace {

constexpr std::int64_t kBlockBytes = 128;

const char* meaning_of(GroupKind kind) {
  switch (kind) {
    case GroupKind::kPairs:
      return "chosen and rejected answers";
    case GroupKind::kJudged:
      return "desirable and undesirable answers";
    case GroupKind::kRollouts:
      return "answers of a policy";
    case GroupKind::kTurns:
      break;
  }
  return "turns of conversations";
}

// Number of values that both begin with, at most `most`. Comparing bytes of blocks takes a fraction
// of the time of comparing values.
template <typename T>
std::int64_t num_equal(const T* a, const T* b, std::int64_t most) {
  constexpr std::int64_t kBlock = kBlockBytes / sizeof(T);
  std::int64_t count = 0;
  while (count + kBlock <= most && std::memcmp(a + count, b + count, kBlockBytes) == 0) {
    count += kBlock;
  }
  while (count < most && a[count] == b[count]) ++count;
  return count;
}

// Number of tokens before the first learned one, at most `most`. The first token of an example is
// never learned.
std::int64_t num_before_learned(std::span<const std::uint8_t> mask, std::int64_t most) {
  static constexpr std::array<std::uint8_t, kBlockBytes> kNone{};
  std::int64_t count = 1;
  while (count < most) {
    const std::int64_t block = std::min<std::int64_t>(kBlockBytes, most - count);
    const std::int64_t found = num_equal(mask.data() + count, kNone.data(), block);
    count += found;
    if (found < block) break;
  }
  return std::min(count, most);
}

}  // namespace

std::int64_t num_shared_tokens(const TokenStore& store, const ExampleGroup& group) {
  if (group.num_examples < 2) return 0;
  const auto first = store.input_ids(group.first_example);
  std::int64_t shared = std::ssize(first) - 1;
  for (std::int64_t e = group.first_example; e < group.first_example + group.num_examples; ++e) {
    const auto ids = store.input_ids(e);
    const std::int64_t most = std::min<std::int64_t>(shared, std::ssize(ids) - 1);
    shared = std::min(num_equal(ids.data(), first.data(), most),
                      num_before_learned(store.loss_mask(e), most));
  }
  return std::max<std::int64_t>(shared, 0);
}

std::vector<std::int64_t> shared_with_last(const TokenStore& store, const ExampleGroup& group) {
  std::vector<std::int64_t> shared;
  const std::int64_t last = group.first_example + group.num_examples - 1;
  const auto ids_of_last = store.input_ids(last);
  const std::int64_t most_of_last =
      num_before_learned(store.loss_mask(last), std::ssize(ids_of_last) - 1);
  std::int64_t longest = 0;
  for (std::int64_t e = group.first_example; e < last; ++e) {
    const auto ids = store.input_ids(e);
    const std::int64_t most = std::min<std::int64_t>(most_of_last, std::ssize(ids) - 1);
    const std::int64_t equal = num_equal(ids.data(), ids_of_last.data(), most);
    shared.push_back(equal < 1 ? 0 : num_before_learned(store.loss_mask(e), equal));
    longest = std::max(longest, shared.back());
  }
  shared.push_back(longest);
  return shared;
}

void check_is_plain(const TokenStore& store, std::string_view key) {
  const StoreInfo& info = store.info();
  if (info.groups && is_of_objective(info.groups->kind)) {
    throw Error(
        ErrorCategory::kData,
        fmt::format("{}: {} holds groups of the kind '{}' ({}), wanted a store of plain "
                    "examples",
                    key, store.folder(), name_of(info.groups->kind), meaning_of(info.groups->kind)),
        info.groups->kind == GroupKind::kRollouts
            ? "Set objective.kind: policy, or make a store of plain examples."
            : "Set objective.kind to one that reads them, such as dpo for pairs or kto for judged "
              "answers. `packtrain prepare --only-chosen` makes a plain store of the answers that "
              "were chosen.");
  }
  if (info.token_columns.empty()) return;
  throw Error(ErrorCategory::kData,
              fmt::format("{}: {} has the columns of tokens {}, which next-token training does not "
                          "use",
                          key, store.folder(), fmt::join(info.token_columns, ", ")),
              "Make the store again without these columns.");
}

}  // namespace packtrain
