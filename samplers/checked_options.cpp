#include "samplers/checked_options.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 53;  // also exact in a double

void check_range(const char* name, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("{} must be between 1 and {}, got {}", name, most, value));
}

[[noreturn]] void fail_cuts(const std::string& setting, const std::string& does,
                            const std::string& folder, const std::string& advice) {
  throw Error(ErrorCategory::kConfig,
              fmt::format("{} {}, but the groups of {} are kept whole", setting, does, folder),
              advice);
}

void check_keeps_groups(const PlanOptions& options, const std::string& folder) {
  if (traits_of(options.strategy).has_rows) {
    fail_cuts(fmt::format("batch.strategy: {}", traits_of(options.strategy).name), "cuts examples",
              folder, "Set batch.strategy to another one, such as balanced.");
  }
  if (options.too_long == TooLong::kTruncate || options.too_long == TooLong::kSplit) {
    const bool truncates = options.too_long == TooLong::kTruncate;
    fail_cuts(fmt::format("data.too_long: {}", truncates ? "truncate" : "split"), "cuts examples",
              folder, "Set data.too_long to error or drop.");
  }
  if (options.cross_example_attention) {
    fail_cuts("batch.cross_example_attention: true", "joins examples", folder,
              "Set batch.cross_example_attention: false.");
  }
}

}  // namespace

PlanOptions checked_options(PlanOptions options) {
  check_range("data.max_length", options.max_length, kInt32Max);
  if (options.global_batch_tokens == 0) {
    check_range("batch.global_batch_size", options.global_batch_size, kInt32Max);
  } else {
    check_range("batch.global_batch_tokens", options.global_batch_tokens, kMaxTokens);
  }
  check_range("batch.micro_batch_size", options.micro_batch_size, kInt32Max);
  // Rows of a batch are numbered in 32 bits.
  check_range("batch.max_tokens_per_micro_batch", options.max_tokens_per_micro_batch, kInt32Max);
  check_range("the number of ranks", options.num_ranks, kInt32Max);
  // Rows cut all examples, so no example is too long for them.
  const bool cuts_all = traits_of(options.strategy).has_rows;
  if (cuts_all && options.too_long == TooLong::kError) options.too_long = TooLong::kSplit;
  const bool has_file = traits_of(options.strategy).has_plan_file;
  if (has_file && options.plan_file == nullptr) {
    throw Error(ErrorCategory::kInternal, "the options of a plan have no plan file");
  }
  if (traits_of(options.strategy).pads_to_longest) options.share_prefixes = false;
  // The epochs of a file differ, as those of a shuffle do.
  if (has_file) options.order = OrderKind::kRandom;
  return options;
}

PlanOptions checked_options(const TokenStore& store, PlanOptions options) {
  if (store.groups() != nullptr) check_keeps_groups(options, store.folder());
  return checked_options(std::move(options));
}

}  // namespace packtrain
