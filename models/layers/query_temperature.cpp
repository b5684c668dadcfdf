#include "models/layers/query_temperature.h"

#include <ATen/ops/floor_divide.h>

namespace packtrain {

void scale_queries_(const at::Tensor& queries, const DeviceBatch& batch,
                    const QueryTemperature& temperature) {
  // A token at position p sees p + 1 keys.
  if (temperature.beta == 0 || batch.max_seqlen <= temperature.num_positions) return;
  const at::Tensor factors = at::floor_divide(batch.position_ids, temperature.num_positions)
                                 .to(at::kFloat)
                                 .log1p_()
                                 .mul_(temperature.beta)
                                 .add_(1.0);
  queries.mul_(factors.view({-1, 1, 1}));
}

}  // namespace packtrain
