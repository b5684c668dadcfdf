#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/activation/activation.h"

namespace packtrain {
namespace {

void add_activation(OpBenchmarks& benchmarks, const std::string& name, const Activation& kind,
                    std::int64_t tokens, std::int64_t inner) {
  const std::int64_t width = kind.gated ? 2 * inner : inner;
  const auto bytes = [=](std::int64_t columns) {
    return 2.0 * static_cast<double>(tokens * columns);
  };
  const std::string shape = shape_text({tokens, inner});
  benchmarks.push_back(
      {.name = name + " forward", .shape = shape, .bytes = bytes(width + inner), .make = [=] {
         return keeping_output([=, x = random_numbers({tokens, width}, at::kBFloat16)] {
           return activation_forward(x, kind);
         });
       }});
  benchmarks.push_back(
      {.name = name + " backward", .shape = shape, .bytes = bytes(2 * width + inner), .make = [=] {
         return keeping_output([=, x = random_numbers({tokens, width}, at::kBFloat16),
                                g = random_numbers({tokens, inner}, at::kBFloat16)] {
           return activation_backward(g, x, kind);
         });
       }});
}

}  // namespace

void add_activations(OpBenchmarks& benchmarks) {
  constexpr Activation kSwiglu = {ActivationKind::kSilu, true};
  add_activation(benchmarks, "swiglu", kSwiglu, 16384, 8192);
  add_activation(benchmarks, "swiglu", kSwiglu, 16384, 14336);
  add_activation(benchmarks, "swiglu", kSwiglu, 16384, 4864);
  add_activation(benchmarks, "geglu", {ActivationKind::kGeluTanh, true}, 16384, 9216);
  add_activation(benchmarks, "gelu", {ActivationKind::kGeluTanh, false}, 16384, 8192);
}

}  // namespace packtrain
