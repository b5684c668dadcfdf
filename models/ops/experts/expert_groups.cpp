#include "models/ops/experts/expert_groups.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>

#include <limits>
#include <tuple>

namespace packtrain {

at::Tensor largest_columns(const at::Tensor& values, std::int64_t count) {
  const auto order =
      std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  return order.narrow(-1, 0, count);
}

at::Tensor scores_in_groups(const at::Tensor& scores, const RoutingOptions& options,
                            std::int64_t num_best) {
  const std::int64_t num_rows = scores.size(0);
  const std::int64_t per_group = scores.size(1) / options.num_groups;
  const at::Tensor grouped = scores.view({num_rows, options.num_groups, per_group});
  const at::Tensor best = std::get<0>(at::sort(grouped, /*dim=*/-1, /*descending=*/true));
  const at::Tensor of_groups = best.narrow(-1, 0, num_best).sum(-1);
  at::Tensor is_left_out = at::ones(of_groups.sizes(), of_groups.options().dtype(at::kBool));
  is_left_out.scatter_(1, largest_columns(of_groups, options.groups_per_row), /*value=*/0);
  return grouped.masked_fill(is_left_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .view({num_rows, scores.size(1)});
}

}  // namespace packtrain
