#include "models/ops/experts/expert_lora.h"

#include "models/ops/experts/grouped_matmul.h"

namespace packtrain {
namespace {

// Returns s [A, R].
at::Tensor expert_low_rank(const at::Tensor& x, const at::Tensor& ends, const ExpertLora& lora,
                           const GemmTiming& timing) {
  return grouped_matmul(x, lora.a->value.transpose(1, 2), ends, timing).mul_(lora.scale);
}

}  // namespace

void add_expert_update(const at::Tensor& y, const at::Tensor& x, const at::Tensor& ends,
                       const ExpertLora& lora, const GemmTiming& timing) {
  const at::Tensor s = expert_low_rank(x, ends, lora, timing);
  add_grouped_matmul(y, s, lora.b->value.transpose(1, 2), ends, timing);
}

at::Tensor expert_lora_backward_low_rank(const at::Tensor& grad_y, const at::Tensor& ends,
                                         const ExpertLora& lora, const GemmTiming& timing) {
  return grouped_matmul(grad_y, lora.b->value, ends, timing).mul_(lora.scale);
}

void add_expert_lora_input_gradient(const at::Tensor& dx, const at::Tensor& grad_low_rank,
                                    const at::Tensor& ends, const ExpertLora& lora,
                                    const GemmTiming& timing) {
  add_grouped_matmul(dx, grad_low_rank, lora.a->value, ends, timing);
}

void expert_lora_backward_weight(const at::Tensor& grad_y, const at::Tensor& grad_low_rank,
                                 const at::Tensor& x, const at::Tensor& ends,
                                 const ExpertLora& lora, const GemmTiming& timing) {
  const at::Tensor s = expert_low_rank(x, ends, lora, timing);
  grouped_weight_gradient(*lora.b, grad_y, s, ends, timing);
  grouped_weight_gradient(*lora.a, grad_low_rank, x, ends, timing);
}

}  // namespace packtrain
