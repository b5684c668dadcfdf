// Decoding of weights that are stored encoded.
#include <ATen/ops/empty.h>

#include "benchmarks/ops/op_benchmark.h"
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

}  // namespace

void add_encodings(OpBenchmarks& benchmarks) {
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
