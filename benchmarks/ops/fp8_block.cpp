// Casts to 8-bit floats with a scale for each 128 numbers, and the products that read them.
#include "models/ops/fp8/fp8_block.h"

#include <ATen/ops/empty.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_block_linear.h"
#include "models/ops/fp8/fp8_linear.h"

namespace packtrain {
namespace {

// x [rows, columns] is read once.
void add_group_cast(OpBenchmarks& benchmarks, const std::string& name, std::int64_t columns,
                    const Fp8GroupCast& cast) {
  constexpr std::int64_t kRows = 16384;
  const int num_copies = (cast.rows ? 1 : 0) + (cast.columns == Fp8ColumnScales::kNone ? 0 : 1);
  benchmarks.push_back({.name = "fp8 block cast, " + name,
                        .shape = shape_text({kRows, columns}),
                        .bytes = (2.0 + num_copies) * static_cast<double>(kRows * columns),
                        .make = [=] {
                          const at::Tensor x = random_numbers({kRows, columns}, at::kBFloat16);
                          Fp8GroupCast known = cast;
                          known.amax = make_fp8_amax(x);
                          return keeping_output([=] { return fp8_group_cast(x, known); });
                        }});
}

void add_block_weight_cast(OpBenchmarks& benchmarks, bool transposed) {
  constexpr std::int64_t kRows = 28672;
  constexpr std::int64_t kColumns = 4096;
  benchmarks.push_back(
      {.name = std::string("fp8 block cast, weight") + (transposed ? " transposed" : ""),
       .shape = shape_text({kRows, kColumns}),
       .bytes = 3.0 * kRows * kColumns,
       .make = [=] {
         const at::Tensor weight = random_numbers({kRows, kColumns}, at::kBFloat16);
         return keeping_output([=] { return fp8_block_cast(weight, transposed); });
       }});
}

Fp8Operand rows_of(std::int64_t rows, std::int64_t inner) {
  return fp8_group_cast(random_numbers({rows, inner}, at::kBFloat16), {.rows = true}).rows;
}

// With tokens summed both operands have groups, otherwise the weight has blocks.
void add_block_product(OpBenchmarks& benchmarks, const std::string& name, std::int64_t rows,
                       std::int64_t columns, std::int64_t inner, bool sums_tokens) {
  benchmarks.push_back(
      {.name = "fp8 block product, " + name,
       .shape = shape_text({rows, columns, inner}),
       .flops = 2.0 * static_cast<double>(rows * columns * inner),
       .make =
           [=] {
             const Fp8Operand a = rows_of(rows, inner);
             const Fp8Operand b =
                 sums_tokens
                     ? rows_of(columns, inner)
                     : fp8_block_cast(random_numbers({columns, inner}, at::kBFloat16), false);
             return keeping_output([=] {
               at::Tensor y = at::empty({rows, columns}, a.scale.options().dtype(at::kBFloat16));
               fp8_gemm_out(y, a, b, {}, {.sums_tokens = sums_tokens}, {});
               return y;
             });
           },
       .reference = "bf16",
       .make_reference =
           [=] {
             const at::Tensor a = random_numbers({rows, inner}, at::kBFloat16);
             const at::Tensor b = random_numbers({columns, inner}, at::kBFloat16);
             return keeping_output([=] { return gemm(a, b.t(), {}, {}); });
           }});
}

// All of a layer's forward and backward, with its casts, against that with scales of tensors.
Call block_layer(std::int64_t tokens, std::int64_t out, std::int64_t in, Fp8ColumnScales columns) {
  const at::Tensor x = random_numbers({tokens, in}, at::kBFloat16);
  const at::Tensor grad = random_numbers({tokens, out}, at::kBFloat16);
  const Parameter weight = random_weight({out, in});
  return keeping_output([=] {
    const Fp8Groups of_x = fp8_group_cast(x, {.rows = true, .columns = columns});
    at::Tensor y = fp8_block_linear_forward(of_x.rows, tokens, weight, nullptr, {});
    const Fp8Groups of_grad =
        fp8_group_cast(grad, {.rows = true, .columns = columns, .tensor_format = Fp8Format::kE5M2});
    at::Tensor dx = fp8_block_linear_backward_input(of_grad.rows, tokens, weight, {});
    fp8_linear_backward_weight(of_grad.columns, of_x.columns, weight, {});
    return std::pair(std::move(y), std::move(dx));
  });
}

void add_block_layer(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t out,
                     std::int64_t in) {
  benchmarks.push_back(
      {.name = "fp8 block linear forward and backward",
       .shape = shape_text({tokens, out, in}),
       .flops = 6.0 * static_cast<double>(tokens * out * in),
       .make = [=] { return block_layer(tokens, out, in, Fp8ColumnScales::kGroups); },
       .reference = "weight gradient with scales of tensors",
       .make_reference = [=] { return block_layer(tokens, out, in, Fp8ColumnScales::kTensor); }});
}

}  // namespace

void add_fp8_blocks(OpBenchmarks& benchmarks) {
  for (const std::int64_t columns : {4096, 28672}) {
    add_group_cast(benchmarks, "rows", columns, {.rows = true});
    add_group_cast(benchmarks, "both", columns,
                   {.rows = true, .columns = Fp8ColumnScales::kGroups});
    add_group_cast(benchmarks, "columns with one scale", columns,
                   {.rows = true, .columns = Fp8ColumnScales::kTensor});
    add_group_cast(benchmarks, "columns", columns, {.columns = Fp8ColumnScales::kGroups});
  }
  add_block_weight_cast(benchmarks, false);
  add_block_weight_cast(benchmarks, true);
  constexpr std::int64_t kTokens = 16384;
  for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{28672, 4096},
                                {4096, 14336},
                                {6144, 4096},
                                {4096, 4096}}) {
    add_block_product(benchmarks, "forward", kTokens, out, in, false);
    add_block_product(benchmarks, "d x", kTokens, in, out, false);
    add_block_product(benchmarks, "d weight", out, in, kTokens, true);
    add_block_layer(benchmarks, kTokens, out, in);
  }
}

}  // namespace packtrain
