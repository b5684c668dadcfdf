#include "framework/data/group_weight.h"

#include <span>

#include "framework/data/store_groups.h"

namespace packtrain {

double group_weight(const TokenStore& store, std::int64_t group) {
  const std::int64_t first = store.groups()->group(group).first_example;
  const double weight = store.loss_weights().of(first);
  const TokenWeights weights = store.token_weights(first);
  if (weights.empty()) return weight;
  const auto labels = store.loss_mask(first).subspan(1);
  const std::int64_t num_labels = count_supervised(labels);
  if (num_labels == 0) return weight;  // no plan has the group
  return weight * (sum_of_weights(labels, weights) / static_cast<double>(num_labels));
}

}  // namespace packtrain
