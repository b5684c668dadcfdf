// The projections of a mixture of experts, compared with one GEMM of as many operations.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/activation/activation.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/grouped_glu_gemm.h"
#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/experts/permute.h"
#include "models/ops/experts/routing.h"

namespace packtrain {
namespace {

constexpr Activation kSwiglu{ActivationKind::kSilu, /*gated=*/true};

struct Mixture {
  std::int64_t tokens;
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t num_experts;
  std::int64_t per_token;

  std::string text() const { return shape_text({tokens, hidden, inner, num_experts, per_token}); }
  double flops() const { return 4.0 * static_cast<double>(tokens * per_token * hidden * inner); }

  // Routing of random tokens by a random router.
  Routing routing() const {
    return route(random_numbers({tokens, hidden}, at::kBFloat16),
                 {random_weight({num_experts, hidden})}, {per_token, false, false}, {});
  }

  // The gate and up projection: dispatch's forward and weight gradient.
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
      const TokenPermutation order = sort_tokens_by_expert(routing.experts, mixture.num_experts);
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
                          .reference = "its GEMM",
                          .make_reference = mixture.gemm()});
  };
  add("experts forward", make([](const auto& x, const auto&, const auto& order, const auto& w) {
        const at::Tensor copies = permute_rows(x, order.permuted_rows, {});
        grouped_matmul(copies, w.weight->value.transpose(1, 2), order.ends, {});
      }));
  add("experts backward, input",
      make([](const auto&, const auto& g, const auto& order, const auto& w) {
        dispatch_backward_input(g, /*grad_low_rank=*/{}, order, w, {});
      }));
  add("experts backward, weight",
      make([](const auto& x, const auto& g, const auto& order, const auto& w) {
        dispatch_backward_weight(g, /*grad_low_rank=*/{}, x, order, w);
      }));
}

// GEMMs fused with their activations. The reference runs both one after another.
void add_gated(OpBenchmarks& benchmarks, const Mixture& mixture) {
  const auto make = [=](auto use) {
    return [=] {
      const std::int64_t num_rows = mixture.tokens * mixture.per_token;
      const Routing routing = mixture.routing();
      const TokenPermutation order = sort_tokens_by_expert(routing.experts, mixture.num_experts);
      const at::Tensor rows = random_numbers({num_rows, mixture.hidden}, at::kBFloat16);
      const at::Tensor x = random_numbers({num_rows, 2 * mixture.inner}, at::kBFloat16);
      const at::Tensor up =
          random_weight({mixture.num_experts, 2 * mixture.inner, mixture.hidden}).value;
      const at::Tensor down =
          random_weight({mixture.num_experts, mixture.hidden, mixture.inner}).value;
      return Call([=] { use(rows, x, up, down, order.ends); });
    };
  };
  benchmarks.push_back(
      {.name = "experts with activation, forward",
       .shape = mixture.text(),
       .flops = mixture.flops(),
       .make =
           make([](const auto& rows, const auto&, const auto& up, const auto&, const auto& ends) {
             grouped_glu_gemm_forward(rows, up, ends, kSwiglu, {});
           }),
       .reference = "one after another",
       .make_reference =
           make([](const auto& rows, const auto&, const auto& up, const auto&, const auto& ends) {
             activation_forward(grouped_matmul(rows, up.transpose(1, 2), ends, {}), kSwiglu);
           })});
  benchmarks.push_back({.name = "experts with activation, backward",
                        .shape = mixture.text(),
                        .flops = mixture.flops() / 2,
                        .make = make([](const auto& rows, const auto& x, const auto&,
                                        const auto& down, const auto& ends) {
                          grouped_glu_gemm_backward(rows, down, x, ends, kSwiglu, {});
                        }),
                        .reference = "one after another",
                        .make_reference = make([](const auto& rows, const auto& x, const auto&,
                                                  const auto& down, const auto& ends) {
                          const at::Tensor dy = grouped_matmul(rows, down, ends, {});
                          const at::Tensor y = at::empty_like(dy);
                          activation_backward(dy, x, kSwiglu, y);
                          grad_routing_weight(dy, y, {}, {});
                        })});
}

}  // namespace

void add_experts(OpBenchmarks& benchmarks) {
  const Mixture mixtures[] = {
      {16384, 2048, 1408, 60, 4},  // Qwen1.5-MoE-A2.7B
      {2048, 2048, 1408, 60, 4},   // a small micro-batch of that model
      {16384, 4096, 14336, 8, 2},  // Mixtral 8x7B
      {16384, 1024, 3584, 8, 2},   // a quarter of its widths
      {16384, 2048, 768, 128, 8},  // Qwen3-30B-A3B
  };
  for (const Mixture& mixture : mixtures) {
    add_mixture(benchmarks, mixture);
    add_gated(benchmarks, mixture);
  }
}

}  // namespace packtrain
