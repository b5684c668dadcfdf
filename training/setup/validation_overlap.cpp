#include "training/setup/validation_overlap.h"

#include <fmt/format.h>

#include "framework/core/logging.h"
#include "framework/data/shared_examples.h"

namespace packtrain {
namespace {

// Larger stores (4 GiB of ids) are not read, because all other ranks wait meanwhile.
constexpr std::int64_t kMaxTokensAtStart = std::int64_t{1} << 30U;

}  // namespace

std::string ValidationOverlap::what() const {
  const std::string set = name.empty() ? "data.validation" : "data.validation." + name;
  if (num_shared == num_examples) {
    return fmt::format("{} is training data: all {} examples of {} are in data.train", set,
                       num_examples, path);
  }
  return fmt::format("{} is training data in part: {} of {} examples of {} are in data.train", set,
                     num_shared, num_examples, path);
}

std::optional<ValidationOverlap> find_overlap(const TokenStore& train, const std::string& name,
                                              const TokenStore& validation) {
  const std::int64_t num_shared = count_shared_examples(train, validation);
  if (num_shared == 0) return std::nullopt;
  return ValidationOverlap{name, validation.folder(), validation.info().num_examples, num_shared};
}

void warn_of_overlap(const TokenStore& train, const std::string& name,
                     const TokenStore& validation) {
  if (train.info().num_tokens > kMaxTokensAtStart) {
    log_info(
        "whether examples of {} are in data.train is not looked for at a start: it has {} tokens; "
        "`packtrain plan` does",
        validation.folder(), train.info().num_tokens);
    return;
  }
  const auto overlap = find_overlap(train, name, validation);
  if (overlap) log_warning("{}\n  {}", overlap->what(), kOverlapAdvice);
}

}  // namespace packtrain
