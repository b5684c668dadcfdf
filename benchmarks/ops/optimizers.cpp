#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/adamw/adamw.h"

namespace packtrain {
namespace {

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCUDA, 0);
}

double bytes_of(at::ScalarType dtype) {
  return static_cast<double>(c10::elementSize(dtype));
}

std::string name_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? "fp32" : "bf16";
}

// A model's layers: matrices with weight decay, then a few vectors without.
std::vector<AdamWRange> layer_ranges(std::int64_t numel) {
  constexpr std::int64_t kLayers = 16;
  constexpr std::int64_t kVectors = 4096;
  std::vector<AdamWRange> ranges;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::int64_t begin = layer * (numel / kLayers);
    const std::int64_t matrices = numel / kLayers - kVectors;
    ranges.push_back({begin, matrices, true, begin});
    ranges.push_back({begin + matrices, kVectors, false, begin + matrices});
  }
  return ranges;
}

void add_adamw(OpBenchmarks& benchmarks, std::int64_t numel, at::ScalarType grad,
               at::ScalarType moments) {
  const double bytes_an_element =
      2 * 4 + bytes_of(grad) + 2 * 2 * bytes_of(moments) + bytes_of(at::kBFloat16);
  benchmarks.push_back(
      {.name = "adamw, " + name_of(grad) + " gradient, " + name_of(moments) + " moments",
       .shape = shape_text({numel}),
       .bytes = bytes_an_element * static_cast<double>(numel),
       .make = [=] {
         return [tensors = AdamWTensors{random_numbers({numel}, at::kFloat),
                                        random_numbers({numel}, grad),
                                        at::zeros({numel}, on_gpu(moments)),
                                        at::zeros({numel}, on_gpu(moments)),
                                        at::zeros({numel}, on_gpu(at::kBFloat16))},
                 ranges = layer_ranges(numel), clip_factor = at::ones({}, on_gpu(at::kFloat)),
                 skip = at::zeros({}, on_gpu(at::kByte))] {
           const AdamWOptions options = {.learning_rate = 1e-5, .weight_decay = 0.1};
           adamw(tensors, ranges, options, clip_factor, skip);
         };
       }});
}

}  // namespace

void add_optimizers(OpBenchmarks& benchmarks) {
  add_adamw(benchmarks, std::int64_t{1} << 26, at::kBFloat16, at::kFloat);
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    for (const at::ScalarType grad : {at::kFloat, at::kBFloat16}) {
      add_adamw(benchmarks, std::int64_t{1} << 28, grad, moments);
    }
  }
}

}  // namespace packtrain
