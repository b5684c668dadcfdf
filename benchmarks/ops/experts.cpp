// The projections of a mixture of experts beside one GEMM of as many operations.
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/routing.h"

namespace packtrain {
namespace {

struct Mixture {
  std::int64_t tokens;
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t num_experts;
  std::int64_t per_token;

  std::string text() const { return shape_text({tokens, hidden, inner, num_experts, per_token}); }
  double flops() const { return 4.0 * static_cast<double>(tokens * per_token * hidden * inner); }

  // As a random router spreads random tokens.
  Routing routing() const {
    return route(random_numbers({tokens, hidden}, at::kBFloat16),
                 random_weight({num_experts, hidden}), nullptr, {per_token, false, false});
  }

  // The gate and up projection, as dispatch's forward and weight gradient.
  MakeCall gemm() const {
    return [*this] {
      const at::Tensor x = random_numbers({tokens * per_token, hidden}, at::kBFloat16);
      const at::Tensor w = random_numbers({hidden, 2 * inner}, at::kBFloat16);
      return Call([=, out = at::empty({x.size(0), w.size(1)}, x.options())]() mutable {
        at::mm_out(out, x, w);
      });
    };
  }
};

void add_mixture(OpBenchmarks& benchmarks, const Mixture& mixture) {
  const auto make = [=](auto use) {
    return [=] {
      const Routing routing = mixture.routing();
      const ExpertOrder order = order_by_expert(routing.experts, mixture.num_experts);
      Parameter weight =
          random_weight({mixture.num_experts, 2 * mixture.inner, mixture.hidden}, at::kFloat);
      weight.accumulate = true;
      const at::Tensor x = random_numbers({mixture.tokens, mixture.hidden}, at::kBFloat16);
      const at::Tensor g =
          random_numbers({mixture.tokens * mixture.per_token, 2 * mixture.inner}, at::kBFloat16);
      return Call([=] { use(x, g, order, ExpertProjection{&weight, nullptr}); });
    };
  };
  const auto add = [&](const char* name, MakeCall call) {
    benchmarks.push_back({.name = name,
                          .shape = mixture.text(),
                          .flops = mixture.flops(),
                          .make = std::move(call),
                          .yardstick = "its GEMM",
                          .make_yardstick = mixture.gemm()});
  };
  add("experts forward", make([](const auto& x, const auto&, const auto& order, const auto& w) {
        dispatch_forward(x, order, w);
      }));
  add("experts backward, input",
      make([](const auto&, const auto& g, const auto& order, const auto& w) {
        dispatch_backward_input(g, order, w, {});
      }));
  add("experts backward, weight",
      make([](const auto& x, const auto& g, const auto& order, const auto& w) {
        dispatch_backward_weight(g, x, order, w);
      }));
}

}  // namespace

void add_experts(OpBenchmarks& benchmarks) {
  add_mixture(benchmarks, {16384, 2048, 1408, 60, 4});  // Qwen1.5-MoE-A2.7B
  add_mixture(benchmarks, {2048, 2048, 1408, 60, 4});   // a small micro-batch of it
  add_mixture(benchmarks, {16384, 4096, 14336, 8, 2});  // Mixtral 8x7B
  add_mixture(benchmarks, {16384, 1024, 3584, 8, 2});   // a quarter of its widths
  add_mixture(benchmarks, {16384, 2048, 768, 128, 8});  // Qwen3-30B-A3B
}

}  // namespace packtrain
