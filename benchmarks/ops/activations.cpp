#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/swiglu/swiglu.h"

namespace packtrain {
namespace {

void add_swiglu(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t inner) {
  const double elements = static_cast<double>(tokens * inner);
  const std::string shape = shape_text({tokens, inner});
  benchmarks.push_back(
      {.name = "swiglu forward", .shape = shape, .bytes = 3 * 2 * elements, .make = [=] {
         return keeping_output([gate_up = random_numbers({tokens, 2 * inner}, at::kBFloat16)] {
           return swiglu_forward(gate_up);
         });
       }});
  benchmarks.push_back(
      {.name = "swiglu backward", .shape = shape, .bytes = 5 * 2 * elements, .make = [=] {
         return keeping_output([gate_up = random_numbers({tokens, 2 * inner}, at::kBFloat16),
                                g = random_numbers({tokens, inner}, at::kBFloat16)] {
           return swiglu_backward(g, gate_up);
         });
       }});
}

}  // namespace

void add_activations(OpBenchmarks& benchmarks) {
  add_swiglu(benchmarks, 16384, 8192);
  add_swiglu(benchmarks, 16384, 14336);
  add_swiglu(benchmarks, 16384, 4864);
}

}  // namespace packtrain
