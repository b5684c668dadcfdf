#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {
namespace {

constexpr double kEpsilon = 1e-5;

void add_rms_norm(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t hidden) {
  const double elements = static_cast<double>(tokens * hidden);
  const std::string shape = shape_text({tokens, hidden});
  benchmarks.push_back(
      {.name = "rms_norm forward", .shape = shape, .bytes = 2 * 2 * elements, .make = [=] {
         return keeping_output(
             [x = random_numbers({tokens, hidden}, at::kBFloat16),
              weight = random_weight({hidden})] { return rms_norm_forward(x, weight, kEpsilon); });
       }});
  benchmarks.push_back(
      {.name = "rms_norm backward", .shape = shape, .bytes = 3 * 2 * elements, .make = [=] {
         const auto x = random_numbers({tokens, hidden}, at::kBFloat16);
         const Parameter weight = random_weight({hidden});
         return keeping_output([=, g = random_numbers({tokens, hidden}, at::kBFloat16),
                                inverse_rms = rms_norm_forward(x, weight, kEpsilon).inverse_rms] {
           return rms_norm_backward(g, x, inverse_rms, weight);
         });
       }});
}

}  // namespace

void add_norms(OpBenchmarks& benchmarks) {
  add_rms_norm(benchmarks, 16384, 2048);
  add_rms_norm(benchmarks, 16384, 4096);
  add_rms_norm(benchmarks, 49152, 896);
}

}  // namespace packtrain
