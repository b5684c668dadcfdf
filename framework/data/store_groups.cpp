#include "framework/data/store_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "framework/data/group_format.h"

namespace packtrain {
namespace {

const char* meaning_of(GroupKind kind) {
  switch (kind) {
    case GroupKind::kPairs:
      return "chosen and rejected answers";
    case GroupKind::kJudged:
      return "desirable and undesirable answers";
    case GroupKind::kRollouts:
      break;
  }
  return "answers of a policy";
}

}  // namespace

std::int64_t num_shared_tokens(const TokenStore& store, const ExampleGroup& group) {
  if (group.num_examples < 2) return 0;
  const auto first = store.input_ids(group.first_example);
  const auto first_mask = store.loss_mask(group.first_example);
  std::int64_t shared = std::ssize(first) - 1;
  for (std::int64_t e = group.first_example; e < group.first_example + group.num_examples; ++e) {
    const auto ids = store.input_ids(e);
    const auto mask = store.loss_mask(e);
    shared = std::min<std::int64_t>(shared, std::ssize(ids) - 1);
    std::int64_t t = 0;
    // The first token of an example is never learned.
    while (t < shared && ids[t] == first[t] && (t == 0 || (mask[t] == 0 && first_mask[t] == 0))) {
      ++t;
    }
    shared = t;
  }
  return shared;
}

void check_is_plain(const TokenStore& store, std::string_view key) {
  const StoreInfo& info = store.info();
  if (info.groups) {
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
