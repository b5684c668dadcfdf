#include "training/verification/checks.h"

namespace packtrain {

// The tolerances are above the largest errors that were measured without a fault. On CPUs these
// came from Llamas of 2 to 24 layers, hidden 32 to 512, random and trained, on 1 and 2 ranks.
// In float32: token loss 1e-6, loss 1e-7, gradient 4e-7, sum 2e-7. In bfloat16: token loss 4e-4,
// loss 2e-6, gradient 5e-3, sum 4e-3. Llama-3.2-1B's shape, random, on 2 H200s in bfloat16 gave
// token loss 5.1e-3, loss 3e-6, gradient 1.6e-2.
// The distance to these has three reasons. Products of other shapes may sum in another order.
// Deeper models round more often. So do bfloat16 reductions over many ranks.
// Two examples in one sequence, a fault, gave 2e-2 and 0.3 (attention.qkv) on the smallest model.
Tolerances tolerances_of(const PrecisionSection& precision) {
  if (precision.compute == Precision::kFloat32) {
    return {.token_loss = 1e-5, .loss = 1e-5, .gradient = 2e-5, .attention_sum = 1e-5};
  }
  return {.token_loss = 2e-2, .loss = 1e-3, .gradient = 6e-2, .attention_sum = 1e-2};
}

}  // namespace packtrain
