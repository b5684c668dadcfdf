#include "models/ops/rotary/rotary.h"

#include <ATen/ops/arange.h>

#include "benchmarks/ops/op_benchmark.h"

namespace packtrain {
namespace {

struct Heads {
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;
};

void add_direction(OpBenchmarks& benchmarks, std::int64_t tokens, const Heads& heads,
                   bool forward) {
  const std::int64_t num_rotated = heads.num_heads + heads.num_kv_heads;
  const std::int64_t num_all = num_rotated + heads.num_kv_heads;
  const std::vector<std::int64_t> shape = {tokens, num_all, heads.head_dim};
  benchmarks.push_back(
      {.name = forward ? "rotary forward" : "rotary backward",
       .shape = shape_text({tokens, num_all, heads.head_dim}),
       // Heads that do not turn need not move.
       .bytes = 2.0 * 2 * static_cast<double>(tokens * num_rotated * heads.head_dim),
       .make = [=] {
         const RotaryFrequencies frequencies(rotary_frequencies(10000.0, heads.head_dim, {}));
         const auto positions =
             at::arange(tokens, at::TensorOptions(at::kInt).device(at::kCUDA, 0));
         return keeping_output(
             [=, qkv = random_numbers(shape, at::kBFloat16),
              tables = rotary_tables(positions, frequencies.on(positions.device()))] {
               return forward ? rotary_forward(qkv, num_rotated, tables)
                              : rotary_backward(qkv, num_rotated, tables);
             });
       }});
}

}  // namespace

void add_rotary(OpBenchmarks& benchmarks) {
  for (const bool forward : {true, false}) {
    add_direction(benchmarks, 16384, {32, 8, 128}, forward);
    add_direction(benchmarks, 16384, {32, 8, 64}, forward);
    add_direction(benchmarks, 32768, {14, 2, 64}, forward);
  }
}

}  // namespace packtrain
