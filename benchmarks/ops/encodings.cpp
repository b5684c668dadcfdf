// Weights that are stored encoded: decoding, and products that read them.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <memory>

#include "benchmarks/ops/op_benchmark.h"
#include "models/block/fp8_bytes.h"
#include "models/ops/encoded_weight.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"
#include "models/ops/fp8/fp8_stored.h"
#include "models/ops/fp8/fp8_weight.h"
#include "models/ops/linear/fp8_lora_linear.h"
#include "models/ops/linear/linear.h"
#include "models/ops/nf4/nf4.h"

namespace packtrain {
namespace {

// [rows, columns] of random values.
Parameter encoded_weight(std::int64_t rows, std::int64_t columns) {
  const std::int64_t numel = rows * columns;
  Parameter weight;
  weight.value = random_numbers({rows, columns}, at::kBFloat16, 0.02);
  const at::Tensor groups =
      at::empty({num_nf4_groups(numel) * kNf4GroupBytes}, weight.value.options().dtype(at::kByte));
  nf4_quantize_tensor(numel, 0, groups, [&](std::int64_t begin, std::int64_t count) {
    return weight.value.view({-1}).narrow(0, begin, count);
  });
  weight.encoded = std::make_shared<EncodedParameter>(EncodedParameter{groups, {{0, numel}}});
  return weight;
}

double encoded_bytes(std::int64_t numel) {
  return static_cast<double>(num_nf4_groups(numel) * kNf4GroupBytes);
}

void add_nf4_decode(OpBenchmarks& benchmarks, std::int64_t rows, std::int64_t columns) {
  const std::int64_t numel = rows * columns;
  benchmarks.push_back({.name = "nf4 decode",
                        .shape = shape_text({rows, columns}),
                        .bytes = encoded_bytes(numel) + 2.0 * static_cast<double>(numel),
                        .make = [=] {
                          const Parameter weight = encoded_weight(rows, columns);
                          return Call([weight] { decode_weight(weight); });
                        }});
}

Call linear_call(const Parameter& weight, const at::Tensor& left, bool forward) {
  return [=] {
    forward ? linear_forward(left, weight, nullptr, {}) : linear_backward_input(left, weight, {});
  };
}

void add_nf4_linear(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t rows,
                    std::int64_t columns) {
  for (const bool forward : {true, false}) {
    const auto left = [=] {
      return random_numbers({tokens, forward ? columns : rows}, at::kBFloat16);
    };
    benchmarks.push_back(
        {.name = forward ? "nf4 linear forward" : "nf4 linear d x",
         .shape = shape_text({tokens, rows, columns}),
         .flops = 2.0 * static_cast<double>(tokens * rows * columns),
         .make = [=] { return linear_call(encoded_weight(rows, columns), left(), forward); },
         .reference = "decoded, then multiplied",
         .make_reference =
             [=] {
               const Parameter weight = encoded_weight(rows, columns);
               const Call multiply = linear_call({weight.value, {}}, left(), forward);
               return Call([=] {
                 decode_weight(weight);
                 multiply();
               });
             }});
  }
}

// Stored in 8-bit floats.
Parameter fp8_weight(std::int64_t rows, std::int64_t columns) {
  Parameter weight = random_weight({rows, columns});
  weight.grad.reset();
  const at::Tensor scale = fp8_scale_of(weight.value.abs().max().item<float>());
  const at::Tensor codes = fp8_codes_of(weight.value.view({-1}), scale.to(weight.value.device()));
  const at::Tensor tail = at::zeros({kFp8ScaleBytes}, codes.options());
  tail.narrow(0, 0, 8).copy_(scale.view(at::kByte));
  weight.encoded = std::make_shared<EncodedParameter>(EncodedParameter{
      at::cat({codes, tail}), {{0, rows * columns}}, ParameterEncoding::Format::kFp8});
  const at::Tensor& bytes = weight.encoded->bytes;
  weight.fp8_codes =
      bytes.narrow(0, 0, rows * columns).view(at::kFloat8_e4m3fn).view({rows, columns});
  weight.fp8_scale = bytes.narrow(0, rows * columns, 8).view(at::kFloat);
  return weight;
}

void add_fp8_copies(OpBenchmarks& benchmarks, std::int64_t rows, std::int64_t columns) {
  const auto numel = static_cast<double>(rows * columns);
  benchmarks.push_back({.name = "fp8 weight decode",
                        .shape = shape_text({rows, columns}),
                        .bytes = 3.0 * numel,
                        .make = [=] {
                          const Parameter weight = fp8_weight(rows, columns);
                          return Call([weight] { decode_weight(weight); });
                        }});
  benchmarks.push_back({.name = "fp8 weight transpose",
                        .shape = shape_text({rows, columns}),
                        .bytes = 2.0 * numel,
                        .make = [=] {
                          const Parameter weight = fp8_weight(rows, columns);
                          return keeping_output([=] { return fp8_transpose(weight.fp8_codes); });
                        }});
}

struct LowRankCase {
  std::int64_t tokens, out, in;
  bool forward;
};

constexpr std::int64_t kRank = 16;

// The product of codes with an update of rank 16, or the product alone.
Call fp8_lora_call(const LowRankCase& of, bool updates) {
  const auto& [tokens, out, in, forward] = of;
  const at::Tensor left = random_numbers({tokens, forward ? in : out}, at::kBFloat16);
  const at::Tensor scale = make_fp8_scale(left);
  const Fp8Format format = forward ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
  const Fp8Operand codes{fp8_cast(left, scale, {.format = format, .rows = true}).rows, scale};
  const Parameter weight = fp8_weight(out, in);
  const at::Tensor low = random_numbers({tokens, kRank}, at::kBFloat16);
  const Parameter a = random_weight({kRank, in});
  const auto b = std::make_shared<const Parameter>(random_weight({out, kRank}));
  const LoraModules modules = {{"all", 0, out, kRank, 1.0}};
  return keeping_output([=] {
    if (forward) {
      return updates ? fp8_lora_linear_forward(codes, weight, weight.fp8_scale, nullptr,
                                               {low, modules, {b.get()}}, {}, {})
                     : fp8_linear_forward(codes, weight, weight.fp8_scale, nullptr, {});
    }
    return updates ? fp8_lora_linear_backward_input(codes, weight, weight.fp8_scale,
                                                    {low, a, modules}, {}, {})
                   : fp8_linear_backward_input(codes, weight, weight.fp8_scale, {});
  });
}

void add_fp8_lora(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t out,
                  std::int64_t in) {
  for (const bool forward : {true, false}) {
    const LowRankCase of{tokens, out, in, forward};
    benchmarks.push_back({.name = forward ? "fp8 lora forward" : "fp8 lora d x",
                          .shape = shape_text({tokens, out, in}),
                          .flops = 2.0 * static_cast<double>(tokens * out * in),
                          .make = [=] { return fp8_lora_call(of, true); },
                          .reference = "without the update",
                          .make_reference = [=] { return fp8_lora_call(of, false); }});
  }
}

}  // namespace

void add_encodings(OpBenchmarks& benchmarks) {
  add_fp8_copies(benchmarks, 28672, 4096);
  add_fp8_copies(benchmarks, 4096, 14336);
  for (const std::int64_t tokens : {std::int64_t{4096}, std::int64_t{16384}}) {
    add_fp8_lora(benchmarks, tokens, 28672, 4096);
    add_fp8_lora(benchmarks, tokens, 4096, 14336);
    add_fp8_lora(benchmarks, tokens, 6144, 4096);
    add_fp8_lora(benchmarks, tokens, 4096, 4096);
  }
  add_nf4_decode(benchmarks, 28672, 4096);
  add_nf4_decode(benchmarks, 6144, 4096);
  add_nf4_decode(benchmarks, 57344, 8192);
  for (const std::int64_t tokens : {std::int64_t{32}, std::int64_t{256}, std::int64_t{512}}) {
    add_nf4_linear(benchmarks, tokens, 28672, 4096);
    add_nf4_linear(benchmarks, tokens, 4096, 14336);
    add_nf4_linear(benchmarks, tokens, 6144, 4096);
    add_nf4_linear(benchmarks, tokens, 4096, 4096);
  }
}

}  // namespace packtrain
