#include "training/verification/checks.h"

namespace packtrain {
namespace {

// Packing changes the last bits of what is rounded to 8 bits. Some numbers get another code, 2^-3
// of them away. These errors grow from product to product, at most to those of independent
// roundings: 8 % of a product's output (e4m3 and e5m2). So some ten products allow 0.3. In bfloat16
// one rounding is 2^-9 and moved a token's loss by 5e-3. The same by roundings of 2^-4 is 0.16.
// Measured on CPUs on random Llamas of 4 to 12 layers, hidden 64 to 256: token loss 2.4e-3, loss
// 6e-6, gradient 0.11.
Tolerances tolerances_in_fp8(bool is_wide) {
  return {
      .token_loss = 2e-1, .loss = 1e-2, .gradient = 3e-1, .attention_sum = is_wide ? 1e-5 : 1e-2};
}

}  // namespace

// The tolerances are above the largest errors that were measured without a fault. On CPUs these
// came from Llamas of 2 to 24 layers, hidden 32 to 512, random and trained, on 1 and 2 ranks.
// In float32: token loss 1e-6, loss 1e-7, gradient 4e-7, sum 2e-7. In bfloat16: token loss 4e-4,
// loss 2e-6, gradient 5e-3, sum 4e-3. Llama-3.2-1B's shape, random, on 2 H200s in bfloat16 gave
// token loss 5.1e-3, loss 3e-6, gradient 1.6e-2.
// The distance to these has three reasons. Products of other shapes may sum in another order.
// Deeper models round more often. So do bfloat16 reductions over many ranks.
// Two examples in one sequence, a fault, gave 2e-2 and 0.3 (attention.qkv) on the smallest model.
Tolerances tolerances_of(const PrecisionSection& precision) {
  if (precision.linear != LinearProducts::kBFloat16) {
    return tolerances_in_fp8(precision.compute == Precision::kFloat32);
  }
  if (precision.compute == Precision::kFloat32) {
    return {.token_loss = 1e-5, .loss = 1e-5, .gradient = 2e-5, .attention_sum = 1e-5};
  }
  return {.token_loss = 2e-2, .loss = 1e-3, .gradient = 6e-2, .attention_sum = 1e-2};
}

}  // namespace packtrain
