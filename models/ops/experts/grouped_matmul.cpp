#include "models/ops/experts/grouped_matmul.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <functional>

#include "models/ops/experts/grouped_wgrad_cuda.h"
#include "models/ops/gradient.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

constexpr std::int64_t kAlignment = 8;  // bfloat16 elements: 16 bytes

bool in_one_launch(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16;
}

std::int64_t missing(std::int64_t width) {
  return (kAlignment - width % kAlignment) % kAlignment;
}

// Pads the last dimension with zeros to a multiple of the alignment.
at::Tensor aligned_rows(const at::Tensor& x) {
  const std::int64_t more = missing(x.size(1));
  return more == 0 ? x.contiguous() : at::constant_pad_nd(x, {0, more});
}

// Pads both widths of each matrix and keeps its memory order.
at::Tensor aligned_matrices(const at::Tensor& x) {
  const std::int64_t more_rows = missing(x.size(1));
  const std::int64_t more_columns = missing(x.size(2));
  if (more_rows == 0 && more_columns == 0) return x;
  return at::constant_pad_nd(x, {0, more_columns, 0, more_rows});
}

}  // namespace

void for_each_group(const at::Tensor& ends,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& use) {
  const at::Tensor host = ends.cpu();
  const auto* end = host.const_data_ptr<std::int32_t>();
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < host.size(0); ++e) {
    use(e, begin, end[e] - begin);
    begin = end[e];
  }
}

bool grouped_gemm_sizes_stay_on_device() {
  return has_grouped_wgrad_cuda();
}

at::Tensor grouped_matmul(const at::Tensor& left, const at::Tensor& right, const at::Tensor& ends,
                          const GemmTiming& timing) {
  if (in_one_launch(left) && left.size(0) > 0) {
    // Contiguous now: a reader would otherwise copy it later, with the wider tensor still alive.
    return at::_grouped_mm(aligned_rows(left), aligned_matrices(right), ends)
        .narrow(1, 0, right.size(2))
        .contiguous();
  }
  const at::Tensor out = at::empty({left.size(0), right.size(2)}, left.options());
  for_each_group(ends, [&](std::int64_t e, std::int64_t begin, std::int64_t num_rows) {
    gemm_out(out.narrow(0, begin, num_rows), left.narrow(0, begin, num_rows), right.select(0, e),
             {}, timing);
  });
  return out;
}

void add_grouped_matmul(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
                        const at::Tensor& ends, const GemmTiming& timing) {
  if (in_one_launch(left) && left.size(0) > 0) {
    out.add_(grouped_matmul(left, right, ends, timing));
    return;
  }
  for_each_group(ends, [&](std::int64_t e, std::int64_t begin, std::int64_t num_rows) {
    const at::Tensor rows = out.narrow(0, begin, num_rows);
    gemm_out(rows, left.narrow(0, begin, num_rows), right.select(0, e), {.addend = rows}, timing);
  });
}

void grouped_weight_gradient(const Parameter& weight, const at::Tensor& left,
                             const at::Tensor& right, const at::Tensor& ends,
                             const GemmTiming& timing) {
  if (!weight.grad.defined()) return;
  if (left.size(0) == 0) {
    write_zero_gradient(weight);
  } else if (in_one_launch(left) && has_grouped_wgrad_cuda()) {
    grouped_weight_gradient_cuda(weight, aligned_rows(left), aligned_rows(right), ends);
  } else {
    for_each_group(ends, [&](std::int64_t e, std::int64_t begin, std::int64_t num_rows) {
      const Parameter expert{weight.value.select(0, e), weight.grad.select(0, e),
                             weight.accumulate};
      write_gradient_gemm(expert, left.narrow(0, begin, num_rows).t(),
                          right.narrow(0, begin, num_rows), timing);
    });
  }
}

}  // namespace packtrain
