// Low-rank updates of a layer's products: lora_benchmark --help.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmarks/guarded_main.h"
#include "benchmarks/lora/layer.h"
#include "benchmarks/lora/products.h"
#include "benchmarks/lora/timed_graph.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

constexpr int kNumChainLayers = 8;
constexpr double kChainTurn = 12;  // turns of a product's variant

double relative_error(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor apart = got.to(at::kFloat) - want;
  return apart.norm().item<double>() / want.norm().item<double>();
}

void print_case(const LoraLinear& linear, const ProductCase& product, const Turns& turns) {
  std::vector<std::string> errors;
  {
    const at::Tensor want = product.reference();
    for (const Variant& variant : product.variants) {
      errors.push_back(variant.has_update
                           ? fmt::format("{:.1e}", relative_error(variant.run(0), want))
                           : std::string("-"));
    }
  }
  const std::size_t num_weights = linear.weights.size();
  std::vector<TimedGraph> graphs;
  for (const Variant& variant : product.variants) {
    graphs.emplace_back([&] {
      for (std::size_t i = 1; i <= num_weights; ++i) {
        variant.run(product.flops > 0 ? i % num_weights : i);
      }
    });
  }
  const std::vector<double> times = replay_in_turns(graphs, turns);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double us = times[i] / static_cast<double>(num_weights);
    fmt::print("| {} | {} | {} | {} | {:.1f} | {:.3f} | {} | {} |\n", linear.x.size(0), linear.name,
               product.name, product.variants[i].name, us, times[i] / times[0],
               product.flops > 0 ? fmt::format("{:.0f} TFLOP/s", product.flops / us * 1e-6)
                                 : fmt::format("{:.0f} GB/s", product.bytes / us * 1e-3),
               errors[i]);
  }
  std::fflush(stdout);
}

enum class Chain { kFrozen, kApart, kKernels };

void run_forward(const LoraLinear& linear, const Parameter& weight, Chain chain) {
  if (chain == Chain::kFrozen) {
    linear_forward(linear.x, weight, nullptr, {}, linear.residual);
    return;
  }
  if (chain == Chain::kKernels) {
    const at::Tensor s = lora_low_rank(linear.x, linear.a, linear.modules, {}, {});
    lora_linear_forward(linear.x, weight, nullptr, s, linear.modules, linear.b_of(), {},
                        linear.residual);
    return;
  }
  const at::Tensor s =
      gemm(linear.x, linear.a.value.t(), {.scale = linear.modules.front().scale}, {});
  const at::Tensor y = linear_forward(linear.x, weight, nullptr, {}, linear.residual);
  lora_forward(y, s, linear.modules, linear.b_of(), {});
}

void run_backward(const LoraLinear& linear, const Parameter& weight, Chain chain) {
  if (chain == Chain::kFrozen) {
    linear_backward_input(linear.grad_output, weight, {});
    return;
  }
  if (chain == Chain::kKernels) {
    const at::Tensor ds = lora_linear_backward_low_rank(linear.grad_output, linear.s,
                                                        linear.modules, linear.b_of(), {});
    lora_linear_backward_input(linear.grad_output, weight, ds, linear.a, linear.modules, {}, {});
    linear_backward_weight(ds, linear.x, linear.a, nullptr, {});
    return;
  }
  const at::Tensor ds = lora_backward_input(linear.grad_output, linear.modules, linear.b_of(), {});
  lora_backward_weight(linear.grad_output, linear.s, linear.modules, linear.b_of(), {});
  const at::Tensor dx = linear_backward_input(linear.grad_output, weight, {});
  gemm_out(dx, ds, linear.a.value, {.addend = dx}, {});
  gemm_out(linear.a.grad, ds.t(), linear.x, {}, {});
}

void print_chain(const std::vector<LoraLinear>& layer, const Turns& turns) {
  std::vector<TimedGraph> graphs;
  for (const Chain chain : {Chain::kFrozen, Chain::kApart, Chain::kKernels}) {
    graphs.emplace_back([&] {
      for (int i = 0; i < kNumChainLayers; ++i) {
        for (const LoraLinear& linear : layer) {
          run_forward(linear, linear.weights[static_cast<std::size_t>(i) % linear.weights.size()],
                      chain);
        }
      }
      for (int i = kNumChainLayers - 1; i >= 0; --i) {
        for (const LoraLinear& linear : layer) {
          run_backward(linear, linear.weights[static_cast<std::size_t>(i) % linear.weights.size()],
                       chain);
        }
      }
    });
  }
  const std::vector<double> times =
      replay_in_turns(graphs, {turns.milliseconds * kChainTurn, turns.rounds});
  const std::vector<const char*> names = {"frozen products", "updates apart", "kernels"};
  for (std::size_t i = 0; i < times.size(); ++i) {
    fmt::print("| {} | chain | forward and backward | {} | {:.1f} | {:.3f} | of a layer | |\n",
               layer.front().x.size(0), names[i], times[i] / kNumChainLayers,
               times[i] / times.front());
  }
  std::fflush(stdout);
}

int run_program(int argc, char** argv) {
  AdaptedLayerShape shape;
  std::vector<std::int64_t> sizes = {8192};
  Turns turns;
  bool only_chain = false;
  CLI::App app("Products of a decoder layer with low-rank updates, on one Hopper GPU.");
  app.add_option("--tokens", sizes, "several with commas")->delimiter(',');
  app.add_option("--rank", shape.rank);
  app.add_option("--hidden", shape.hidden);
  app.add_option("--kv", shape.kv, "columns of keys, and of values");
  app.add_option("--mlp", shape.mlp);
  app.add_option("--turn-ms", turns.milliseconds);
  app.add_option("--rounds", turns.rounds);
  app.add_flag("--only-chain", only_chain);
  CLI11_PARSE(app, argc, argv);
  const at::NoGradGuard no_grad;
  const c10::cuda::CUDAStreamGuard on_stream(c10::cuda::getStreamFromPool());
  fmt::print(
      "| tokens | matrix | product | how | us | of the first | rate | error |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const std::int64_t tokens : sizes) {
    shape.tokens = tokens;
    const std::vector<LoraLinear> layer = lora_layer(shape);
    print_chain(layer, turns);
    for (const LoraLinear& linear : layer) {
      if (only_chain) break;
      for (const ProductCase& product : product_cases(linear)) print_case(linear, product, turns);
      c10::cuda::CUDACachingAllocator::emptyCache();
    }
  }
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("lora_benchmark", packtrain::run_program, argc, argv);
}
