#include "collators/label_weights.h"

namespace packtrain {

double LabelWeights::of(const TokenStore& store, std::int64_t example) {
  const TokenWeights weights = store.token_weights(example);
  if (weights.empty()) {
    return static_cast<double>(store.num_loss_tokens()[static_cast<std::size_t>(example)]);
  }
  const auto known = sums_.find(example);
  if (known != sums_.end()) return known->second;
  if (sums_.size() == kMaxKept) sums_.clear();
  const double sum = sum_of_weights(store.loss_mask(example).subspan(1), weights);
  sums_.emplace(example, sum);
  return sum;
}

}  // namespace packtrain
