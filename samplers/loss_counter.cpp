#include "samplers/loss_counter.h"

#include <algorithm>

namespace packtrain {

std::int64_t StoreLossCounter::loss_tokens_before(std::int64_t example,
                                                  std::int32_t num_tokens) const {
  const auto mask = store_.loss_mask(example);
  const auto end = std::min(mask.size(), static_cast<std::size_t>(std::max(num_tokens, 0)));
  if (end < 2) return 0;
  return std::ranges::count(mask.subspan(1, end - 1), std::uint8_t{1});
}

}  // namespace packtrain
