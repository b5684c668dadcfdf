// Experts whose rows multiply 8-bit floats, against the same in bfloat16.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <memory>
#include <utility>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/fp8_grouped_matmul.h"
#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/experts/routing.h"
#include "models/ops/fp8/fp8.h"

namespace packtrain {
namespace {

constexpr Activation kExpertActivation{ActivationKind::kSilu, /*gated=*/true};

struct ExpertSizes {
  std::int64_t tokens;
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t num_experts;
  std::int64_t per_token;

  std::int64_t num_rows() const { return tokens * per_token; }
  std::string text() const { return shape_text({tokens, hidden, inner, num_experts, per_token}); }
  // Counts gate, up and down projections.
  double flops() const { return 6.0 * static_cast<double>(num_rows() * hidden * inner); }
  // Groups of equal size.
  at::Tensor ends() const {
    return at::arange(1, num_experts + 1, at::TensorOptions(at::kInt).device(at::kCUDA)) *
           (num_rows() / num_experts);
  }
};

// The gate and up projection of rows that are cast before.
void add_expert_product(OpBenchmarks& benchmarks, const ExpertSizes& m) {
  benchmarks.push_back(
      {.name = "experts fp8 product",
       .shape = m.text(),
       .flops = m.flops() * 2 / 3,
       .make =
           [=] {
             const at::Tensor x = random_numbers({m.num_rows(), m.hidden}, at::kBFloat16);
             const at::Tensor w = random_weight({m.num_experts, 2 * m.inner, m.hidden}).value;
             const at::Tensor x_scale = make_fp8_scale(x);
             const at::Tensor w_scale = make_fp8_scale(w);
             const Fp8Operand left{fp8_cast(x, x_scale, {.rows = true}).rows, x_scale};
             const Fp8Matrices right{fp8_cast(w, w_scale, {.rows = true}).rows, w_scale};
             return keeping_output([=, ends = m.ends()] {
               return fp8_grouped_matmul(left, right, ends, at::kBFloat16, {});
             });
           },
       .reference = "bf16",
       .make_reference =
           [=] {
             const at::Tensor x = random_numbers({m.num_rows(), m.hidden}, at::kBFloat16);
             const at::Tensor w = random_weight({m.num_experts, 2 * m.inner, m.hidden}).value;
             return keeping_output(
                 [=, ends = m.ends()] { return grouped_matmul(x, w.transpose(1, 2), ends, {}); });
           }});
}

// A weight whose scale the optimizer has found.
Parameter weight_with_scale(at::IntArrayRef shape) {
  Parameter weight = random_weight(shape);
  const at::Tensor rows = weight.value.flatten(0, 1);
  weight.fp8_scale = make_fp8_scale(rows);
  fp8_cast(rows, weight.fp8_scale, {.rows = true});
  return weight;
}

// Forward and backward of all projections with their casts.
MakeCall all_of(const ExpertSizes& m, bool in_fp8) {
  return [=] {
    const at::Tensor x = random_numbers({m.tokens, m.hidden}, at::kBFloat16);
    const at::Tensor grad = random_numbers({m.tokens, m.hidden}, at::kBFloat16);
    const Routing routing =
        route(x, {random_weight({m.num_experts, m.hidden})}, {m.per_token, false, false}, {});
    const TokenPermutation order = sort_tokens_by_expert(routing.experts, m.num_experts);
    const auto weights = std::make_shared<std::pair<Parameter, Parameter>>(
        weight_with_scale({m.num_experts, 2 * m.inner, m.hidden}),
        weight_with_scale({m.num_experts, m.hidden, m.inner}));
    return keeping_output([=] {
      const ExpertProjection up{.weight = &weights->first, .in_fp8 = in_fp8};
      const ExpertProjection down{.weight = &weights->second, .in_fp8 = in_fp8};
      const ExpertsHidden made = dispatch_forward(x, order, up, kExpertActivation);
      at::Tensor y = combine_forward(made.h, routing.weights, order, down, {}, made.h_amax);
      const CombineGradients back =
          combine_backward(grad, made.u, routing.weights, order, down, kExpertActivation);
      at::Tensor dx = dispatch_backward_input(back.u, {}, order, up, {}, back.u_amax);
      dispatch_backward_weight(back.u, {}, x, order, up);
      return std::pair(std::move(y), std::move(dx));
    });
  };
}

}  // namespace

void add_fp8_experts(OpBenchmarks& benchmarks) {
  const ExpertSizes all_sizes[] = {
      {16384, 4096, 14336, 8, 2},  // Mixtral 8x7B
      {16384, 1024, 3584, 8, 2},   // a quarter of its widths
      {16384, 2048, 768, 128, 8},  // Qwen3-30B-A3B
  };
  for (const ExpertSizes& sizes : all_sizes) {
    add_expert_product(benchmarks, sizes);
    benchmarks.push_back({.name = "experts fp8 forward and backward",
                          .shape = sizes.text(),
                          .flops = 3 * sizes.flops(),
                          .make = all_of(sizes, /*in_fp8=*/true),
                          .reference = "bf16",
                          .make_reference = all_of(sizes, /*in_fp8=*/false)});
  }
}

}  // namespace packtrain
