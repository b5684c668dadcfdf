#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <vector>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "training/optimizers/adamw.h"
#include "training/optimizers/adamw8.h"
#include "training/optimizers/dynamic_map.h"
#include "training/optimizers/sophia.h"
#include "training/optimizers/unclipped.h"

namespace packtrain {
namespace {

struct AdamWDtypes {
  const char* name;
  at::ScalarType grad;
  at::ScalarType moments;
  at::ScalarType master = at::kFloat;  // bfloat16: it is the weight
};

at::TensorOptions options_on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCUDA, 0);
}

double bytes_an_element(const AdamWDtypes& dtypes) {
  const double master_and_weight = dtypes.master == at::kFloat ? 4 + 4 + 2 : 2 + 2;
  return master_and_weight + static_cast<double>(at::elementSize(dtypes.grad)) +
         4 * static_cast<double>(at::elementSize(dtypes.moments));
}

AdamWTensors make_tensors(const AdamWDtypes& dtypes, std::int64_t numel) {
  AdamWTensors tensors{.master = random_numbers({numel}, dtypes.master),
                       .grad = random_numbers({numel}, dtypes.grad),
                       .exp_avg = at::zeros({numel}, options_on_gpu(dtypes.moments)),
                       .exp_avg_sq = at::zeros({numel}, options_on_gpu(dtypes.moments)),
                       .weight = {}};
  const bool has_weight = dtypes.master == at::kFloat;
  tensors.weight = has_weight ? at::zeros({numel}, options_on_gpu(at::kBFloat16)) : tensors.master;
  return tensors;
}

void add_adamw(OpBenchmarks& benchmarks, const AdamWDtypes& dtypes, std::int64_t numel) {
  benchmarks.push_back({.name = dtypes.name,
                        .shape = shape_text({numel}),
                        .bytes = bytes_an_element(dtypes) * static_cast<double>(numel),
                        .make = [=] {
                          return [tensors = make_tensors(dtypes, numel),
                                  ranges = std::array{ShardRange{.numel = numel}},
                                  clip_factor = at::ones({}, options_on_gpu(at::kFloat)),
                                  skip = at::zeros({}, options_on_gpu(at::kByte))] {
                            const AdamWOptions options = {.learning_rate = 1e-5};
                            adamw(tensors, ranges, options, clip_factor, skip);
                          };
                        }});
}

// It also finds the largest magnitude of each of 64 weights, as 8-bit products need it.
void add_adamw_amax(OpBenchmarks& benchmarks, const AdamWDtypes& dtypes, std::int64_t numel) {
  constexpr int kWeights = 64;
  benchmarks.push_back(
      {.name = dtypes.name,
       .shape = shape_text({kWeights, numel / kWeights}),
       .bytes = bytes_an_element(dtypes) * static_cast<double>(numel),
       .make = [=] {
         AdamWTensors tensors = make_tensors(dtypes, numel);
         tensors.amax = at::zeros({kWeights}, at::TensorOptions(at::kInt).device(at::kCUDA));
         std::vector<ShardRange> ranges;
         for (int w = 0; w < kWeights; ++w) {
           const std::int64_t begin = w * (numel / kWeights);
           ranges.push_back({.begin = begin, .numel = numel / kWeights, .amax = w});
         }
         return [=, clip_factor = at::ones({}, at::TensorOptions(at::kFloat).device(at::kCUDA)),
                 skip = at::zeros({}, at::TensorOptions(at::kByte).device(at::kCUDA))] {
           tensors.amax.zero_();
           const AdamWOptions options = {.learning_rate = 1e-5};
           adamw(tensors, ranges, options, clip_factor, skip);
         };
       }});
}

// The update reads the Hessian estimate and does not write it. `hessian`: the update of that alone.
void add_sophia(OpBenchmarks& benchmarks, const AdamWDtypes& dtypes, std::int64_t numel,
                bool hessian) {
  const auto grad_bytes = static_cast<double>(at::elementSize(dtypes.grad));
  const auto state_bytes = static_cast<double>(at::elementSize(dtypes.moments));
  const double bytes =
      hessian ? grad_bytes + 2 * state_bytes : bytes_an_element(dtypes) - state_bytes;
  benchmarks.push_back(
      {.name = dtypes.name,
       .shape = shape_text({numel}),
       .bytes = bytes * static_cast<double>(numel),
       .make = [=] {
         const AdamWTensors like = make_tensors(dtypes, numel);
         SophiaTensors tensors{like.master, like.grad, like.exp_avg, like.exp_avg_sq, like.weight};
         tensors.num_unclipped = at::zeros({kUnclippedCounters}, options_on_gpu(at::kInt));
         return [=, ranges = std::array{ShardRange{.numel = numel}},
                 clip_factor = at::ones({}, options_on_gpu(at::kFloat)),
                 skip = at::zeros({}, options_on_gpu(at::kByte))] {
           const SophiaOptions options = {.learning_rate = 1e-5};
           if (hessian) {
             sophia_hessian(tensors, ranges, options, 4096, skip);
           } else {
             sophia(tensors, ranges, options, clip_factor, skip);
           }
         };
       }});
}

// Moments of 8-bit codes, with a scale for each block.
void add_adamw8(OpBenchmarks& benchmarks, std::int64_t numel, const char* name,
                at::ScalarType master) {
  const AdamWDtypes dtypes{name, at::kBFloat16, at::kByte, master};
  const double scales_of_block = 4 * 4.0 / kMomentBlock;
  benchmarks.push_back(
      {.name = name,
       .shape = shape_text({numel}),
       .bytes = (bytes_an_element(dtypes) + scales_of_block) * static_cast<double>(numel),
       .make = [=] {
         const AdamWTensors tensors = make_tensors(dtypes, numel);
         const auto scales = [=] {
           return at::zeros({numel / kMomentBlock}, options_on_gpu(at::kFloat));
         };
         const ShardPart part{tensors.master,
                              tensors.grad,
                              {tensors.exp_avg, scales(), tensors.exp_avg_sq, scales()},
                              tensors.weight};
         return [=, ranges = std::array{ShardRange{.numel = numel}},
                 clip_factor = at::ones({}, options_on_gpu(at::kFloat)),
                 skip = at::zeros({}, options_on_gpu(at::kByte))] {
           adamw8(part, ranges, {.learning_rate = 1e-5}, clip_factor, skip);
         };
       }});
}

void add_squared_norm(OpBenchmarks& benchmarks, at::ScalarType dtype, std::int64_t numel) {
  benchmarks.push_back(
      {.name = dtype == at::kFloat ? "gradient norm, fp32" : "gradient norm, bf16",
       .shape = shape_text({numel}),
       .bytes = static_cast<double>(at::elementSize(dtype)) * static_cast<double>(numel),
       .make = [=] {
         return [grad = random_numbers({numel}, dtype),
                 loss = at::ones({}, options_on_gpu(at::kFloat))] {
           step_scalars(step_sums(squared_norm_partials(grad), loss, {}, {}), 1.0);
         };
       }});
}

// The end of an optimizer step of one rank: norm, clip factor and AdamW.
void add_step_end(OpBenchmarks& benchmarks, const AdamWDtypes& dtypes, std::int64_t numel) {
  const double bytes = bytes_an_element(dtypes) + static_cast<double>(at::elementSize(dtypes.grad));
  benchmarks.push_back({.name = dtypes.name,
                        .shape = shape_text({numel}),
                        .bytes = bytes * static_cast<double>(numel),
                        .make = [=] {
                          return [tensors = make_tensors(dtypes, numel),
                                  ranges = std::array{ShardRange{.numel = numel}},
                                  loss = at::ones({}, options_on_gpu(at::kFloat))] {
                            const at::Tensor sums =
                                step_sums(squared_norm_partials(tensors.grad), loss, {}, {});
                            const StepScalars scalars = step_scalars(sums, 1.0);
                            const AdamWOptions options = {.learning_rate = 1e-5};
                            adamw(tensors, ranges, options, scalars.clip_factor, scalars.skip);
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
  add_adamw(benchmarks,
            {"adamw, bf16 gradients and master", at::kBFloat16, at::kFloat, at::kBFloat16}, kNumel);
  add_adamw(
      benchmarks,
      {"adamw, bf16 gradients, moments and master", at::kBFloat16, at::kBFloat16, at::kBFloat16},
      kNumel);
  add_adamw8(benchmarks, kNumel, "adamw, bf16 gradients, int8 moments", at::kFloat);
  add_adamw8(benchmarks, kNumel, "adamw, bf16 gradients and master, int8 moments", at::kBFloat16);
  add_adamw_amax(benchmarks, {"adamw, bf16 gradients, amaxes", at::kBFloat16, at::kFloat}, kNumel);
  add_sophia(benchmarks, {"sophia", at::kFloat, at::kFloat}, kNumel, /*hessian=*/false);
  add_sophia(benchmarks, {"sophia, bf16 gradients", at::kBFloat16, at::kFloat}, kNumel,
             /*hessian=*/false);
  add_sophia(benchmarks, {"sophia, bf16 gradients and state", at::kBFloat16, at::kBFloat16}, kNumel,
             /*hessian=*/false);
  add_sophia(benchmarks, {"sophia's hessian, bf16 gradients", at::kBFloat16, at::kFloat}, kNumel,
             /*hessian=*/true);
  add_squared_norm(benchmarks, at::kFloat, kNumel);
  add_squared_norm(benchmarks, at::kBFloat16, kNumel);
  constexpr std::int64_t kLlama1b = 1'235'814'400;  // Llama-3.2-1B
  add_step_end(benchmarks, {"end of a step", at::kFloat, at::kFloat}, kLlama1b);
  add_step_end(benchmarks, {"end of a step, bf16 gradients", at::kBFloat16, at::kFloat}, kLlama1b);
  add_step_end(benchmarks,
               {"end of a step, bf16 gradients and moments", at::kBFloat16, at::kBFloat16},
               kLlama1b);
}

}  // namespace packtrain
