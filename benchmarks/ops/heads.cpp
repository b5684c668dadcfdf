#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/linear_cross_entropy/cross_entropy.h"
#include "models/ops/linear_cross_entropy/linear_loss.h"
#include "models/ops/linear_cross_entropy/sample_labels.h"

namespace packtrain {
namespace {

struct HeadShape {
  std::int64_t tokens;
  std::int64_t hidden;
  std::int64_t vocab_size;
};

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCUDA, 0);
}

CrossEntropyTargets random_targets(const HeadShape& shape) {
  return {.labels = at::randint(shape.vocab_size, {shape.tokens}, on_gpu(at::kInt)),
          .weights = at::ones({shape.tokens}, on_gpu(at::kFloat)).div_(shape.tokens),
          .row_losses = at::empty({shape.tokens}, on_gpu(at::kFloat))};
}

// The three GEMMs alone, over all rows together.
Call products(const HeadShape& shape) {
  return [x = random_numbers({shape.tokens, shape.hidden}, at::kBFloat16),
          weight = random_weight({shape.vocab_size, shape.hidden}),
          logits = random_numbers({shape.tokens, shape.vocab_size}, at::kBFloat16),
          grad_x = at::empty({shape.tokens, shape.hidden}, on_gpu(at::kBFloat16))] {
    at::Tensor product = logits;
    at::mm_out(product, x, weight.value.t());
    at::Tensor out = grad_x;
    at::mm_out(out, logits, weight.value);
    out = weight.grad;
    at::mm_out(out, logits.t(), x);
  };
}

// Returns the gradient of x.
at::Tensor linear_cross_entropy(const at::Tensor& x, const Parameter& weight,
                                const CrossEntropyTargets& targets) {
  const auto row_losses = [&](const LogitsChunk& chunk) {
    const auto of_chunk = [&](const at::Tensor& rows) {
      return rows.narrow(0, chunk.begin, chunk.logits.size(0));
    };
    cross_entropy(chunk.logits,
                  {of_chunk(targets.labels), chunk.weights, of_chunk(targets.row_losses)}, {});
  };
  return linear_loss(x, weight, nullptr, {.gradients = true, .weights = {.known = targets.weights}},
                     row_losses);
}

void add_head(OpBenchmarks& benchmarks, const HeadShape& shape) {
  benchmarks.push_back(
      {.name = "linear_cross_entropy",
       .shape = shape_text({shape.tokens, shape.hidden, shape.vocab_size}),
       .flops = 6.0 * static_cast<double>(shape.tokens * shape.hidden * shape.vocab_size),
       .make =
           [=] {
             return keeping_output([x = random_numbers({shape.tokens, shape.hidden}, at::kBFloat16),
                                    weight = random_weight({shape.vocab_size, shape.hidden}),
                                    targets = random_targets(shape)] {
               return linear_cross_entropy(x, weight, targets);
             });
           },
       .reference = "its three GEMMs",
       .make_reference = [=] { return products(shape); }});
}

void add_cross_entropy(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t vocab_size) {
  const HeadShape shape{tokens, 0, vocab_size};
  benchmarks.push_back(
      {.name = "cross_entropy, gradient in place",
       .shape = shape_text({tokens, vocab_size}),
       .bytes = 2 * 2.0 * static_cast<double>(tokens * vocab_size),
       .make = [=] {
         CrossEntropyTargets targets = random_targets(shape);
         targets.row_losses = at::empty({tokens}, on_gpu(at::kFloat));
         return Call([targets, logits = random_numbers({tokens, vocab_size}, at::kBFloat16)] {
           cross_entropy(logits, targets, {});
         });
       }});
}

void add_sample_labels(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t vocab_size) {
  benchmarks.push_back({.name = "sample_labels",
                        .shape = shape_text({tokens, vocab_size}),
                        .bytes = 2.0 * static_cast<double>(tokens * vocab_size),
                        .make = [=] {
                          return Call(
                              [seeds = at::arange(tokens, on_gpu(at::kLong)),
                               logits = random_numbers({tokens, vocab_size}, at::kBFloat16)] {
                                sample_labels(logits, seeds, {});
                              });
                        }});
}

}  // namespace

void add_heads(OpBenchmarks& benchmarks) {
  add_head(benchmarks, {8192, 4096, 128256});
  add_head(benchmarks, {16384, 2048, 128256});
  add_head(benchmarks, {4096, 2048, 128256});
  add_head(benchmarks, {4096, 896, 151936});
  add_cross_entropy(benchmarks, 4096, 128256);
  add_cross_entropy(benchmarks, 4096, 151936);
  add_cross_entropy(benchmarks, 2048, 201088);
  add_cross_entropy(benchmarks, 2048, 256000);
  add_sample_labels(benchmarks, 4096, 128256);
}

}  // namespace packtrain
