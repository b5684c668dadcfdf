// Linear layers, compared with the bare GEMM.
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/linear/dora.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

struct Matrix {
  std::int64_t tokens;
  std::int64_t inputs;
  std::int64_t outputs;

  at::Tensor x() const { return random_numbers({tokens, inputs}, at::kBFloat16); }
  at::Tensor y() const { return random_numbers({tokens, outputs}, at::kBFloat16); }
  Parameter weight() const { return random_weight({outputs, inputs}); }
  std::string text() const { return shape_text({tokens, inputs, outputs}); }
  double flops() const { return 2.0 * static_cast<double>(tokens * inputs * outputs); }
};

// a b of bf16 matrices. Each call gets its own.
template <typename Factors>
MakeCall product(Factors factors) {
  return [=] {
    const auto [a, b] = factors();
    return Call([=, out = at::empty({a.size(0), b.size(1)}, a.options())]() mutable {
      at::mm_out(out, a, b);
    });
  };
}

void add_linear(OpBenchmarks& benchmarks, const Matrix& matrix) {
  using Pair = std::pair<at::Tensor, at::Tensor>;
  benchmarks.push_back(
      {.name = "linear forward with residual",
       .shape = matrix.text(),
       .flops = matrix.flops(),
       .make =
           [=] {
             return keeping_output(
                 [x = matrix.x(), weight = matrix.weight(), residual = matrix.y()] {
                   return linear_forward(x, weight, nullptr, {}, residual);
                 });
           },
       .reference = "its GEMM",
       .make_reference = product([=] { return Pair(matrix.x(), matrix.weight().value.t()); })});
  benchmarks.push_back(
      {.name = "linear backward, input",
       .shape = matrix.text(),
       .flops = matrix.flops(),
       .make =
           [=] {
             return keeping_output([g = matrix.y(), weight = matrix.weight()] {
               return linear_backward_input(g, weight, {});
             });
           },
       .reference = "its GEMM",
       .make_reference = product([=] { return Pair(matrix.y(), matrix.weight().value); })});
  for (const bool full : {false, true}) {
    benchmarks.push_back(
        {.name = full ? "linear backward, float32 weight gradient"
                      : "linear backward, bf16 weight gradient",
         .shape = matrix.text(),
         .flops = matrix.flops(),
         .make =
             [=] {
               const auto dtype = full ? at::kFloat : at::kBFloat16;
               const Parameter weight = random_weight({matrix.outputs, matrix.inputs}, dtype);
               return Call([=, g = matrix.y(), x = matrix.x()] {
                 linear_backward_weight(g, x, weight, nullptr, {});
               });
             },
         .reference = "its GEMM",
         .make_reference = product([=] { return Pair(matrix.y().t(), matrix.x()); })});
  }
}

// Magnitudes of the rows of a weight.
void add_dora(OpBenchmarks& benchmarks, const Matrix& matrix) {
  const double elements = static_cast<double>(matrix.tokens * matrix.outputs);
  const std::string shape = shape_text({matrix.tokens, matrix.outputs});
  const auto factors = [=] { return random_numbers({matrix.outputs}, at::kFloat); };
  for (const bool adds : {false, true}) {
    benchmarks.push_back({.name = adds ? "dora scale forward with residual" : "dora scale forward",
                          .shape = shape,
                          .bytes = (adds ? 6 : 4) * elements,
                          .make = [=] {
                            const at::Tensor residual = adds ? matrix.y() : at::Tensor();
                            return keeping_output([=, z = matrix.y(), g = factors()] {
                              return dora_scale_forward(z, g, nullptr, residual);
                            });
                          }});
  }
  benchmarks.push_back(
      {.name = "dora scale backward", .shape = shape, .bytes = 6 * elements, .make = [=] {
         return keeping_output([z = matrix.y(), grad = matrix.y(), g = factors()] {
           return dora_scale_backward_in_place(grad, z, g);
         });
       }});
  const LoraModules modules = {{"module", 0, matrix.outputs, 16, 2.0}};
  benchmarks.push_back({.name = "dora norms, rank 16",
                        .shape = shape_text({matrix.outputs, matrix.inputs}),
                        .bytes = 4.0 * static_cast<double>(matrix.outputs * matrix.inputs),
                        .make = [=] {
                          return keeping_output([=, weight = matrix.weight(),
                                                 a = random_weight({16, matrix.inputs}),
                                                 b = random_weight({matrix.outputs, 16})] {
                            const Parameter* const of_module = &b;
                            return dora_norms(weight, a, modules, {&of_module, 1}, {});
                          });
                        }});
}

}  // namespace

void add_linears(OpBenchmarks& benchmarks) {
  add_linear(benchmarks, {16384, 8192, 2048});
  add_linear(benchmarks, {4096, 8192, 2048});
  add_linear(benchmarks, {16384, 14336, 4096});
  add_linear(benchmarks, {16384, 4096, 4096});
  add_dora(benchmarks, {16384, 4096, 28672});
  add_dora(benchmarks, {16384, 4096, 4096});
}

}  // namespace packtrain
