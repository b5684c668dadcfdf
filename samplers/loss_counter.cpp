#include "samplers/loss_counter.h"

#include <algorithm>

namespace packtrain {

std::int64_t StoreLossCounter::loss_tokens_before(std::int64_t example,
                                                  std::int32_t num_tokens) const {
  const auto mask = store_.loss_mask(example);
  const auto end = std::min(mask.size(), static_cast<std::size_t>(std::max(num_tokens, 0)));
  if (end < 2) return 0;
  return count_supervised(mask.subspan(1, end - 1));
}

double StoreLossCounter::label_weight(std::int64_t example, std::int32_t begin,
                                      std::int32_t end) const {
  const auto mask = store_.loss_mask(example);
  const auto first = static_cast<std::size_t>(begin);
  const auto last = std::min(mask.size(), static_cast<std::size_t>(std::max(end, 0)));
  if (first >= last) return 0;
  return sum_of_weights(mask.subspan(first, last - first), store_.token_weights(example));
}

}  // namespace packtrain
