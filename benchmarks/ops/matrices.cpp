// Muon: Newton-Schulz, compared with its products alone, and the passes over the shard.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/matmul/matmul.h"
#include "models/ops/syrk/syrk.h"
#include "parallel/sharding/matrix_plan.h"
#include "training/optimizers/moment_update.h"
#include "training/optimizers/newton_schulz.h"

namespace packtrain {
namespace {

// The products of the iterations on one matrix, by libtorch.
Call products_of(std::int64_t count, std::int64_t rows, std::int64_t columns) {
  const std::int64_t less = std::min(rows, columns);
  const std::int64_t more = std::max(rows, columns);
  const at::Tensor x = random_numbers({less, more}, at::kBFloat16);
  const at::Tensor gram = random_numbers({less, less}, at::kBFloat16);
  return [=, square = at::empty_like(gram), next = at::empty_like(x)]() mutable {
    for (std::int64_t i = 0; i < count * kNewtonSchulzSteps; ++i) {
      at::mm_out(square, x, x.t());
      at::mm_out(square, gram, gram);
      at::mm_out(next, gram, x);
    }
  };
}

void add_newton_schulz(OpBenchmarks& benchmarks, std::int64_t count, std::int64_t rows,
                       std::int64_t columns) {
  benchmarks.push_back({.name = "newton_schulz",
                        .shape = shape_text({count, rows, columns}),
                        .flops = static_cast<double>(count * kNewtonSchulzSteps) *
                                 orthogonalisation_cost(rows, columns),
                        .make =
                            [=] {
                              return [x = random_numbers({count, rows, columns}, at::kBFloat16)] {
                                newton_schulz(x, 1, {});
                              };
                            },
                        .reference = "its GEMMs",
                        .make_reference = [=] { return products_of(count, rows, columns); }});
}

// Operations are those of one triangle.
void add_syrk(OpBenchmarks& benchmarks, std::int64_t n, std::int64_t k) {
  const auto product = [=](auto multiply) {
    return [=] {
      return [=, x = random_numbers({1, n, k}, at::kBFloat16),
              out = random_numbers({1, n, n}, at::kBFloat16)] { multiply(out, x); };
    };
  };
  benchmarks.push_back({.name = "syrk",
                        .shape = shape_text({n, k}),
                        .flops = static_cast<double>(n * n * k),
                        .make = product([](const at::Tensor& out, const at::Tensor& x) {
                          syrk_out(out, x, {}, {});
                        }),
                        .reference = "a GEMM",
                        .make_reference = product([](const at::Tensor& out, const at::Tensor& x) {
                          gemm_out(out[0], x[0], x[0].t(), {}, {});
                        })});
}

void add_moment_update(OpBenchmarks& benchmarks, const char* name, MomentRule rule,
                       double bytes_an_element) {
  constexpr std::int64_t kNumel = std::int64_t{1} << 28;
  benchmarks.push_back({.name = name,
                        .shape = shape_text({kNumel}),
                        .bytes = bytes_an_element * static_cast<double>(kNumel),
                        .make = [=] {
                          const auto on_gpu = at::TensorOptions(at::kFloat).device(at::kCUDA, 0);
                          const ShardPart part{random_numbers({kNumel}, at::kFloat),
                                               random_numbers({kNumel}, at::kBFloat16),
                                               {at::zeros({kNumel}, on_gpu)},
                                               at::zeros({kNumel}, on_gpu.dtype(at::kBFloat16))};
                          const UpdateOptions update{1e-5, 1, at::ones({}, on_gpu),
                                                     at::zeros({}, on_gpu.dtype(at::kByte))};
                          return [=, ranges = std::array{ShardRange{.numel = kNumel}}] {
                            moment_update(rule, part, ranges,
                                          {.learning_rate = 1e-5, .beta1 = 0.95}, update);
                          };
                        }});
}

}  // namespace

void add_matrices(OpBenchmarks& benchmarks) {
  // Llama-3-8B: gate, up and down; query and output; key and value. 128 experts of Qwen3-30B-A3B.
  add_newton_schulz(benchmarks, 1, 14336, 4096);
  add_newton_schulz(benchmarks, 1, 4096, 4096);
  add_newton_schulz(benchmarks, 2, 1024, 4096);
  add_newton_schulz(benchmarks, 128, 768, 2048);
  add_syrk(benchmarks, 4096, 14336);
  add_syrk(benchmarks, 4096, 4096);
  add_syrk(benchmarks, 2048, 8192);
  add_moment_update(benchmarks, "muon, momentum", MomentRule::kMuonMomentum, 4 + 4 + 2 + 2);
  add_moment_update(benchmarks, "muon, weights", MomentRule::kMuonWeights, 4 + 4 + 2 + 2);
  add_moment_update(benchmarks, "lion", MomentRule::kLion, 4 + 4 + 4 + 4 + 2 + 2);
}

}  // namespace packtrain
