#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/adamw/adamw.h"

namespace packtrain {
namespace {

struct AdamWDtypes {
  const char* name;
  at::ScalarType grad;
  at::ScalarType moments;
};

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCUDA, 0);
}

double bytes_an_element(const AdamWDtypes& dtypes) {
  constexpr double kMasterAndWeight = 4 + 4 + 2;
  return kMasterAndWeight + static_cast<double>(at::elementSize(dtypes.grad)) +
         4 * static_cast<double>(at::elementSize(dtypes.moments));
}

void add_adamw(OpBenchmarks& benchmarks, const AdamWDtypes& dtypes, std::int64_t numel) {
  benchmarks.push_back(
      {.name = dtypes.name,
       .shape = shape_text({numel}),
       .bytes = bytes_an_element(dtypes) * static_cast<double>(numel),
       .make = [=] {
         return [tensors = AdamWTensors{.master = random_numbers({numel}, at::kFloat),
                                        .grad = random_numbers({numel}, dtypes.grad),
                                        .exp_avg = at::zeros({numel}, on_gpu(dtypes.moments)),
                                        .exp_avg_sq = at::zeros({numel}, on_gpu(dtypes.moments)),
                                        .weight = at::zeros({numel}, on_gpu(at::kBFloat16))},
                 ranges = std::array{AdamWRange{.numel = numel}},
                 clip_factor = at::ones({}, on_gpu(at::kFloat)),
                 skip = at::zeros({}, on_gpu(at::kByte))] {
           const AdamWOptions options = {.learning_rate = 1e-5};
           adamw(tensors, ranges, options, clip_factor, skip);
         };
       }});
}

}  // namespace

void add_optimizers(OpBenchmarks& benchmarks) {
  constexpr std::int64_t kNumel = std::int64_t{1} << 28;
  add_adamw(benchmarks, {"adamw", at::kFloat, at::kFloat}, kNumel);
  add_adamw(benchmarks, {"adamw, bf16 gradients", at::kBFloat16, at::kFloat}, kNumel);
  add_adamw(benchmarks, {"adamw, bf16 gradients and moments", at::kBFloat16, at::kBFloat16},
            kNumel);
}

}  // namespace packtrain
