#include "models/layers/query_temperature.h"

#include <ATen/ops/add.h>
#include <ATen/ops/floor_divide.h>

namespace packtrain {

void scale_queries_(const at::Tensor& queries, const DeviceBatch& batch,
                    const QueryTemperature& temperature) {
  // A token at position p sees p + 1 keys.
  const std::int64_t end = batch.max_seqlen + temperature.offset;
  if (temperature.beta == 0 || end <= temperature.num_positions) return;
  const at::Tensor positions = at::add(batch.position_ids, temperature.offset);
  const at::Tensor factors = at::floor_divide(positions, temperature.num_positions)
                                 .to(at::kFloat)
                                 .log1p_()
                                 .mul_(temperature.beta)
                                 .add_(1.0);
  queries.mul_(factors.view({-1, 1, 1}));
}

}  // namespace packtrain
