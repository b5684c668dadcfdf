#include "samplers/loss_counter.h"

#include <algorithm>
#include <span>

namespace packtrain {
namespace {

// The part of `mask` from `begin` to `end` - 1, cut at the mask's end; begin >= 1.
std::span<const std::uint8_t> part_of(std::span<const std::uint8_t> mask, std::int32_t begin,
                                      std::int32_t end) {
  const auto first = static_cast<std::size_t>(begin);
  const auto last = std::min(mask.size(), static_cast<std::size_t>(std::max(end, 0)));
  if (first >= last) return {};
  return mask.subspan(first, last - first);
}

}  // namespace

std::int64_t StoreLossCounter::loss_tokens_between(std::int64_t example, std::int32_t begin,
                                                   std::int32_t end) const {
  return count_supervised(part_of(store_.loss_mask(example), begin, end));
}

bool StoreLossCounter::has_label_before(std::int64_t example, std::int32_t num_tokens) const {
  const auto mask = part_of(store_.loss_mask(example), 1, num_tokens);
  return std::ranges::any_of(mask, [](std::uint8_t byte) { return byte != 0; });
}

double StoreLossCounter::label_weight(std::int64_t example, std::int32_t begin,
                                      std::int32_t end) const {
  return sum_of_weights(part_of(store_.loss_mask(example), begin, end),
                        store_.token_weights(example));
}

}  // namespace packtrain
