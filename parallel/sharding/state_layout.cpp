#include "parallel/sharding/state_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

// Replicas compare their state word by word, so ranges have whole words of it (flat_layout.cpp).
constexpr std::int64_t kWordBytes = 8;

void require_words(const OptimizerStateSpec& spec, std::int64_t num_values) {
  if (num_values * static_cast<std::int64_t>(at::elementSize(spec.dtype)) % kWordBytes == 0) return;
  throw Error(ErrorCategory::kInternal, "state '" + spec.name + "': a range has " +
                                            std::to_string(num_values) +
                                            " values of blocks, which are no words of 8 bytes");
}

}  // namespace

StateLayout::StateLayout(std::vector<OptimizerStateSpec> specs, std::span<const StateRange> ranges)
    : specs_(std::move(specs)), begins_{0} {
  for (const StateRange& range : ranges) begins_.push_back(begins_.back() + range.numel);
  for (const OptimizerStateSpec& spec : specs_) {
    std::vector<std::int64_t>& values = values_at_.emplace_back(1, 0);
    for (const StateRange& range : ranges) {
      const std::int64_t own = spec.is_of(range.optimizer) ? state_values(spec, range.numel) : 0;
      if (spec.granularity == StateGranularity::kBlock) require_words(spec, own);
      values.push_back(values.back() + own);
    }
  }
}

std::int64_t StateLayout::num_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < specs_.size(); ++s) {
    bytes += num_values(s) * static_cast<std::int64_t>(at::elementSize(specs_[s].dtype));
  }
  return bytes;
}

std::int64_t StateLayout::values_before(std::size_t spec, std::int64_t element) const {
  const auto after = std::ranges::upper_bound(begins_, element);
  const auto range = static_cast<std::size_t>(after - begins_.begin()) - 1;
  if (range + 1 == begins_.size()) return values_at_[spec].back();
  const std::int64_t before = values_at_[spec][range];
  const bool has_values = values_at_[spec][range + 1] > before;
  return before + (has_values ? state_values(specs_[spec], element - begins_[range]) : 0);
}

std::vector<OptimizerTensor> StateLayout::narrow(std::span<const OptimizerTensor> state,
                                                 std::int64_t begin, std::int64_t numel) const {
  std::vector<OptimizerTensor> part;
  for (std::size_t s = 0; s < specs_.size(); ++s) {
    const std::int64_t first = values_before(s, begin);
    const std::int64_t num_values = values_before(s, begin + numel) - first;
    if (num_values == 0) continue;
    part.push_back({specs_[s].name, find_tensor(state, specs_[s].name).narrow(0, first, num_values),
                    specs_[s].granularity == StateGranularity::kBlock ? kStateBlock : 1});
  }
  return part;
}

}  // namespace packtrain
