#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/layer_norm/layer_norm.h"
#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {
namespace {

constexpr RmsNormOptions kRmsNorm;
constexpr LayerNormOptions kLayerNorm;

struct Rows {
  std::int64_t tokens;
  std::int64_t hidden;

  at::Tensor random() const { return random_numbers({tokens, hidden}, at::kBFloat16); }
  // Bytes of `count` tensors of these rows.
  double bytes(int count) const { return 2.0 * count * static_cast<double>(tokens * hidden); }
  std::string text() const { return shape_text({tokens, hidden}); }
};

void add_rms_norm(OpBenchmarks& benchmarks, const Rows& rows) {
  benchmarks.push_back(
      {.name = "rms_norm forward", .shape = rows.text(), .bytes = rows.bytes(2), .make = [=] {
         return keeping_output([x = rows.random(), weight = random_weight({rows.hidden})] {
           return rms_norm_forward(x, weight, kRmsNorm);
         });
       }});
  benchmarks.push_back({.name = "rms_norm forward with residual",
                        .shape = rows.text(),
                        .bytes = rows.bytes(4),
                        .make = [=] {
                          return keeping_output([x = rows.random(), residual = rows.random(),
                                                 weight = random_weight({rows.hidden})] {
                            return rms_norm_forward(x, weight, kRmsNorm, residual);
                          });
                        }});
}

void add_rms_norm_backward(OpBenchmarks& benchmarks, const Rows& rows) {
  benchmarks.push_back(
      {.name = "rms_norm backward with residual",
       .shape = rows.text(),
       .bytes = rows.bytes(4),
       .make = [=] {
         const at::Tensor x = rows.random();
         const Parameter weight = random_weight({rows.hidden}, at::kFloat);
         const at::Tensor inverse_rms = rms_norm_forward(x, weight, kRmsNorm).inverse_rms;
         return keeping_output([=, g = rows.random(), grad_residual = rows.random()] {
           return rms_norm_backward(g, x, inverse_rms, weight, kRmsNorm, grad_residual);
         });
       }});
}

void add_layer_norm(OpBenchmarks& benchmarks, const Rows& rows) {
  benchmarks.push_back({.name = "layer_norm forward with residual",
                        .shape = rows.text(),
                        .bytes = rows.bytes(4),
                        .make = [=] {
                          return keeping_output([x = rows.random(), residual = rows.random(),
                                                 weight = random_weight({rows.hidden}),
                                                 bias = random_weight({rows.hidden})] {
                            return layer_norm_forward(x, weight, &bias, kLayerNorm, residual);
                          });
                        }});
  benchmarks.push_back(
      {.name = "layer_norm backward with residual",
       .shape = rows.text(),
       .bytes = rows.bytes(4),
       .make = [=] {
         const at::Tensor x = rows.random();
         const Parameter weight = random_weight({rows.hidden}, at::kFloat);
         const Parameter bias = random_weight({rows.hidden}, at::kFloat);
         const LayerNormOutput output = layer_norm_forward(x, weight, &bias, kLayerNorm);
         return keeping_output([=, g = rows.random(), grad_residual = rows.random()] {
           return layer_norm_backward(g, x, output.mean, output.inverse_deviation, weight, &bias,
                                      grad_residual);
         });
       }});
}

}  // namespace

void add_norms(OpBenchmarks& benchmarks) {
  constexpr std::int64_t kTokens = 16384;
  for (const Rows& rows : {Rows{kTokens, 2048}, Rows{kTokens, 4096}, Rows{3 * kTokens, 896}}) {
    add_rms_norm(benchmarks, rows);
    add_rms_norm_backward(benchmarks, rows);
  }
  add_layer_norm(benchmarks, {kTokens, 4096});
}

}  // namespace packtrain
