#include "framework/verification/checks.h"

namespace packtrain {

Tolerances tolerances_of(const PrecisionSection& precision) {
  const bool computes_exactly = precision.compute == Precision::kFloat32;
  const bool reduces_exactly = precision.reduce == Precision::kFloat32;
  Tolerances tolerances{.row_loss = 1e-5,
                        .loss = 1e-5,
                        .gradient = 1e-4,
                        .rank_loss = 1e-5,
                        .rank_gradient = 1e-4,
                        .attention_sum = 1e-5};
  if (!computes_exactly) {
    tolerances.row_loss = 2e-2;
    tolerances.loss = 1e-3;
    tolerances.gradient = 3e-2;
    tolerances.attention_sum = 1e-2;
  }
  if (!computes_exactly || !reduces_exactly) tolerances.rank_gradient = 1e-2;
  return tolerances;
}

}  // namespace packtrain
