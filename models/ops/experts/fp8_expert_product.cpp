#include "models/ops/experts/fp8_expert_product.h"

#include <ATen/ops/stack.h>

#include <vector>

#include "models/ops/experts/fp8_grouped_matmul.h"
#include "models/ops/experts/permute.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"
#include "models/ops/fp8/fp8_weight.h"

namespace packtrain {
namespace {

Fp8Operand cast_rows(const at::Tensor& rows, const at::Tensor& amax, Fp8Format format) {
  const at::Tensor scale = make_fp8_scale(rows);
  return {fp8_cast(rows, scale, {.format = format, .rows = true, .amax = amax}).rows, scale};
}

// The matrices [E, out, in] as one of E out rows, which have one scale.
at::Tensor all_rows(const Parameter& weight) {
  return weight.value.flatten(0, 1);
}

Fp8Matrices row_matrices(const Parameter& weight) {
  const at::Tensor rows = all_rows(weight);
  const at::Tensor scale = fp8_weight_scale(weight, rows);
  const Fp8Cast cast{.rows = true, .has_known_scale = weight.fp8_scale.defined()};
  const at::Tensor codes =
      weight.fp8_codes.defined() ? weight.fp8_codes : fp8_cast(rows, scale, cast).rows;
  return {codes.view(weight.value.sizes()), scale.expand({weight.value.size(0), 2})};
}

// That of row_matrices().
at::Tensor known_scale(const Parameter& weight) {
  return weight.fp8_scale.defined() ? weight.fp8_scale : row_matrices(weight).scales[0];
}

// [E, in, out].
Fp8Matrices column_matrices(const Parameter& weight) {
  const at::Tensor scale = known_scale(weight);
  if (weight.fp8_codes.defined()) {
    std::vector<at::Tensor> columns;
    for (const at::Tensor& codes : weight.fp8_codes.unbind(0)) {
      columns.push_back(fp8_transpose(codes).view(at::kByte));
    }
    return {at::stack(columns).view(at::kFloat8_e4m3fn), scale.expand({weight.value.size(0), 2})};
  }
  const at::Tensor scales = make_fp8_scale(weight.value);
  scales.narrow(1, 0, 2).copy_(scale.expand({weight.value.size(0), 2}));
  return {fp8_cast(weight.value, scales, {.columns = true, .has_known_scale = true}).columns,
          scales};
}

// Two codes move as one bfloat16.
at::Tensor permute_codes(const at::Tensor& codes, const at::Tensor& permuted_rows) {
  return permute_rows(codes.view(at::kBFloat16), permuted_rows, {}).view(codes.scalar_type());
}

}  // namespace

bool fp8_takes_experts(at::IntArrayRef weight) {
  return weight.size() == 3 && fp8_takes(weight[1], weight[2]);
}

// In seconds for each number of a weight and each row. Products of bfloat16 run at 650 TFLOP/s and
// these at 1,150. Casts and activations run at 2.9 TB/s. They move 21 bytes for each number of the
// inner width and 6 for each one of the hidden size. Casts of weights move 18 for each number.
bool fp8_experts_are_faster(std::int64_t hidden, std::int64_t inner, std::int64_t num_experts,
                            std::int64_t experts_per_token) {
  constexpr double kSaved = 12 * (1 / 650e12 - 1 / 1150e12);
  constexpr double kByte = 1 / 2.9e12;
  const double rows_of_expert =
      16384.0 * static_cast<double>(experts_per_token) / static_cast<double>(num_experts);
  const double cost = 21 * kByte / static_cast<double>(hidden) +
                      6 * kByte / static_cast<double>(inner) + 18 * kByte / rows_of_expert;
  return kSaved > cost;
}

at::Tensor fp8_expert_forward(const at::Tensor& rows, const at::Tensor& amax,
                              const Parameter& weight, const at::Tensor& ends,
                              const GemmTiming& timing) {
  return fp8_grouped_matmul(cast_rows(rows, amax, Fp8Format::kE4M3), row_matrices(weight), ends,
                            rows.scalar_type(), timing);
}

at::Tensor fp8_expert_forward(const at::Tensor& x, const at::Tensor& amax, const Parameter& weight,
                              const TokenPermutation& order, const GemmTiming& timing) {
  const Fp8Operand rows = cast_rows(x, amax, Fp8Format::kE4M3);
  return fp8_grouped_matmul({permute_codes(rows.codes, order.permuted_rows), rows.scale},
                            row_matrices(weight), order.ends, x.scalar_type(), timing);
}

at::Tensor fp8_expert_backward_input(const at::Tensor& grad, const at::Tensor& amax,
                                     const Parameter& weight, const at::Tensor& ends,
                                     const GemmTiming& timing) {
  return fp8_grouped_matmul(cast_rows(grad, amax, Fp8Format::kE5M2), column_matrices(weight), ends,
                            grad.scalar_type(), timing);
}

}  // namespace packtrain
