// Casts to 8-bit floats, and the products that read them.
#include "models/ops/fp8/fp8.h"

#include <ATen/ops/empty.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/fp8/fp8_linear.h"
#include "models/ops/fp8/fp8_weight.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

// x [rows, columns] is read for amax and again for its codes.
void add_cast(OpBenchmarks& benchmarks, std::int64_t rows, std::int64_t columns, Fp8Cast cast) {
  const int num_copies = (cast.rows ? 1 : 0) + (cast.columns ? 1 : 0);
  const int num_reads = cast.has_known_scale ? 1 : 2;
  const std::string copies = num_copies == 2 ? "both" : cast.rows ? "rows" : "columns";
  benchmarks.push_back(
      {.name = "fp8 cast, " + copies + (num_reads == 1 ? ", known scale" : ""),
       .shape = shape_text({rows, columns}),
       .bytes = (2.0 * num_reads + num_copies) * static_cast<double>(rows * columns),
       .make = [=] {
         const at::Tensor x = random_numbers({rows, columns}, at::kBFloat16);
         const at::Tensor scale = make_fp8_scale(x);
         fp8_cast(x, scale, {.rows = true});
         return keeping_output([=] { return fp8_cast(x, scale, cast); });
       }});
}

Fp8Operand operand(at::IntArrayRef shape, Fp8Format format) {
  const at::Tensor x = random_numbers(shape, at::kBFloat16);
  const at::Tensor scale = make_fp8_scale(x);
  return {fp8_cast(x, scale, {.format = format, .rows = true}).rows, scale};
}

// What a rank does with its part of a weight before a gather, and with a gathered weight.
void add_gathered_weight(OpBenchmarks& benchmarks, std::int64_t out, std::int64_t in) {
  const auto numel = static_cast<double>(out * in);
  benchmarks.push_back({.name = "fp8 encode of a part of a weight",
                        .shape = shape_text({out, in}),
                        .bytes = 3 * numel,
                        .make = [=] {
                          const at::Tensor x = random_numbers({out * in}, at::kBFloat16);
                          const at::Tensor scale = make_fp8_scale(x);
                          const at::Tensor codes =
                              fp8_cast(x.view({out, in}), scale, {.rows = true}).rows.view({-1});
                          return [=] { fp8_encode(x, scale, codes); };
                        }});
  benchmarks.push_back(
      {.name = "fp8 transpose", .shape = shape_text({out, in}), .bytes = 2 * numel, .make = [=] {
         const at::Tensor codes = operand({out, in}, Fp8Format::kE4M3).codes;
         return keeping_output([=] { return fp8_transpose(codes); });
       }});
}

struct Sizes {
  std::int64_t rows, columns, inner;
  Fp8Format left = Fp8Format::kE4M3;
  Fp8Gemm options = {};
};

void add_product(OpBenchmarks& benchmarks, const std::string& name, const Sizes& sizes) {
  const auto& [rows, columns, inner, left, options] = sizes;
  benchmarks.push_back(
      {.name = "fp8 product, " + name,
       .shape = shape_text({rows, columns, inner}),
       .flops = 2.0 * static_cast<double>(rows * columns * inner),
       .make =
           [=] {
             const Fp8Operand a = operand({sizes.rows, sizes.inner}, sizes.left);
             const Fp8Operand b = operand({sizes.columns, sizes.inner}, Fp8Format::kE4M3);
             return keeping_output([=] {
               at::Tensor y =
                   at::empty({sizes.rows, sizes.columns}, a.scale.options().dtype(at::kBFloat16));
               fp8_gemm_out(y, a, b, {}, sizes.options, {});
               return y;
             });
           },
       .reference = "bf16",
       .make_reference =
           [=] {
             const at::Tensor a = random_numbers({sizes.rows, sizes.inner}, at::kBFloat16);
             const at::Tensor b = random_numbers({sizes.columns, sizes.inner}, at::kBFloat16);
             return keeping_output([=] { return gemm(a, b.t(), {}, {}); });
           }});
}

// All of a layer's forward and backward, with its casts, against that in bf16.
Call fp8_layer(std::int64_t tokens, std::int64_t out, std::int64_t in) {
  const at::Tensor x = random_numbers({tokens, in}, at::kBFloat16);
  const at::Tensor grad = random_numbers({tokens, out}, at::kBFloat16);
  const Parameter weight = random_weight({out, in});
  return keeping_output([=] {
    const at::Tensor x_scale = make_fp8_scale(x);
    const at::Tensor weight_scale = make_fp8_scale(x);
    const at::Tensor scale = make_fp8_scale(x);
    const Fp8Copies of_x = fp8_cast(x, x_scale, {.rows = true, .columns = true});
    at::Tensor y = fp8_linear_forward({of_x.rows, x_scale}, weight, weight_scale, nullptr, {});
    const Fp8Copies of_grad =
        fp8_cast(grad, scale, {.format = Fp8Format::kE5M2, .rows = true, .columns = true});
    at::Tensor dx = fp8_linear_backward_input({of_grad.rows, scale}, weight, weight_scale, {});
    fp8_linear_backward_weight({of_grad.columns, scale}, {of_x.columns, x_scale}, weight, {});
    return std::pair(std::move(y), std::move(dx));
  });
}

Call bf16_layer(std::int64_t tokens, std::int64_t out, std::int64_t in) {
  const at::Tensor x = random_numbers({tokens, in}, at::kBFloat16);
  const at::Tensor grad = random_numbers({tokens, out}, at::kBFloat16);
  const Parameter weight = random_weight({out, in});
  return keeping_output([=] {
    at::Tensor y = linear_forward(x, weight, nullptr, {});
    at::Tensor dx = linear_backward_input(grad, weight, {});
    linear_backward_weight(grad, x, weight, nullptr, {});
    return std::pair(std::move(y), std::move(dx));
  });
}

void add_layer(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t out, std::int64_t in) {
  benchmarks.push_back({.name = "fp8 linear forward and backward",
                        .shape = shape_text({tokens, out, in}),
                        .flops = 6.0 * static_cast<double>(tokens * out * in),
                        .make = [=] { return fp8_layer(tokens, out, in); },
                        .reference = "bf16",
                        .make_reference = [=] { return bf16_layer(tokens, out, in); }});
}

}  // namespace

void add_fp8(OpBenchmarks& benchmarks) {
  for (const std::int64_t columns : {4096, 14336, 28672}) {
    add_cast(benchmarks, 16384, columns, {.rows = true, .columns = true});
    add_cast(benchmarks, 16384, columns, {.rows = true, .columns = true, .has_known_scale = true});
  }
  add_cast(benchmarks, 28672, 4096, {.rows = true});
  add_cast(benchmarks, 28672, 4096, {.columns = true, .has_known_scale = true});
  add_gathered_weight(benchmarks, 28672, 4096);
  add_gathered_weight(benchmarks, 4096, 14336);
  for (const std::int64_t tokens : {16384, 4096}) {
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{28672, 4096},
                                  {4096, 14336},
                                  {6144, 4096},
                                  {4096, 4096}}) {
      add_product(benchmarks, "forward",
                  {tokens, out, in, Fp8Format::kE4M3, {.fast_accumulation = true}});
      add_product(benchmarks, "d x", {tokens, in, out, Fp8Format::kE5M2});
      add_product(benchmarks, "d weight",
                  {out, in, tokens, Fp8Format::kE5M2, {.sums_tokens = true}});
      add_layer(benchmarks, tokens, out, in);
    }
  }
}

}  // namespace packtrain
