// The low-rank update (LoRA) of the weights of all experts. Each expert has its own A and B:
//    s[a] = scale A[e] x[a];  y[a] += B[e] s[a]                            a in group e
//    d(A x)[a] = scale B[e]^T g[a];  dx[a] += A[e]^T d(A x)[a]
//    dB[e] = sum over a in e of g[a] s[a]^T;  dA[e] = sum over a in e of d(A x)[a] x[a]^T
// Rows are sorted by expert and end at ends[e] (grouped_matmul.h). Shapes are x [A, K], y and g [A,
// N], A [E, R, K], B [E, N, R] and s [A, R]. All have one dtype, float32 or bfloat16; the gradients
// of A and B may be float32. Deterministic. 2 A R (K + N) operations forward.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

struct ExpertLora {
  const Parameter* a = nullptr;  // null: no update
  const Parameter* b = nullptr;
  double scale = 1;
};

// Adds the update of `x` to `y`.
void add_expert_update(const at::Tensor& y, const at::Tensor& x, const at::Tensor& ends,
                       const ExpertLora& lora, const GemmTiming& timing);
// Returns d(A x) [A, R].
at::Tensor expert_lora_backward_low_rank(const at::Tensor& grad_y, const at::Tensor& ends,
                                         const ExpertLora& lora, const GemmTiming& timing);
// Adds to dx the part that A gives.
void add_expert_lora_input_gradient(const at::Tensor& dx, const at::Tensor& grad_low_rank,
                                    const at::Tensor& ends, const ExpertLora& lora,
                                    const GemmTiming& timing);
// Writes dA and dB, with zeros for experts without rows. Computes s again.
void expert_lora_backward_weight(const at::Tensor& grad_y, const at::Tensor& grad_low_rank,
                                 const at::Tensor& x, const at::Tensor& ends,
                                 const ExpertLora& lora, const GemmTiming& timing);

}  // namespace packtrain
