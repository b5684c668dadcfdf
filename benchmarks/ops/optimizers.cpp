#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/adamw/adamw.h"

namespace packtrain {
namespace {

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCUDA, 0);
}

void add_adamw(OpBenchmarks& benchmarks, std::int64_t numel) {
  constexpr double kBytesAnElement = 16 + 12 + 2;
  benchmarks.push_back({.name = "adamw, bf16 weights",
                        .shape = shape_text({numel}),
                        .bytes = kBytesAnElement * static_cast<double>(numel),
                        .make = [=] {
                          return [master = random_numbers({numel}, at::kFloat),
                                  grad = random_numbers({numel}, at::kFloat),
                                  exp_avg = at::zeros({numel}, on_gpu(at::kFloat)),
                                  exp_avg_sq = at::zeros({numel}, on_gpu(at::kFloat)),
                                  weight = at::zeros({numel}, on_gpu(at::kBFloat16)),
                                  clip_factor = at::ones({}, on_gpu(at::kFloat)),
                                  skip = at::zeros({}, on_gpu(at::kByte))] {
                            const AdamWOptions options = {.learning_rate = 1e-5};
                            adamw(master, grad, exp_avg, exp_avg_sq, weight, options, clip_factor,
                                  skip);
                          };
                        }});
}

}  // namespace

void add_optimizers(OpBenchmarks& benchmarks) {
  add_adamw(benchmarks, std::int64_t{1} << 26);
  add_adamw(benchmarks, std::int64_t{1} << 28);
}

}  // namespace packtrain
