#include <ATen/ops/empty_like.h>

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
}

void add_rms_norm_backward(OpBenchmarks& benchmarks, const Rows& rows, bool with_residual,
                           bool recomputes) {
  std::string name = "rms_norm backward";
  if (with_residual) name += " with residual";
  if (recomputes) name += ", y recomputed";
  benchmarks.push_back(
      {.name = name,
       .shape = rows.text(),
       .bytes = rows.bytes(3 + (with_residual ? 1 : 0) + (recomputes ? 1 : 0)),
       .make = [=] {
         const at::Tensor x = rows.random();
         const Parameter weight = random_weight({rows.hidden}, at::kFloat);
         const at::Tensor inverse_rms = rms_norm_forward(x, weight, kRmsNorm).inverse_rms;
         const at::Tensor grad_residual = with_residual ? rows.random() : at::Tensor();
         const at::Tensor recomputed = recomputes ? at::empty_like(x) : at::Tensor();
         return keeping_output([=, g = rows.random()] {
           return rms_norm_backward(g, x, inverse_rms, weight, kRmsNorm, grad_residual, recomputed);
         });
       }});
}

void add_layer_norm(OpBenchmarks& benchmarks, const Rows& rows) {
  benchmarks.push_back(
      {.name = "layer_norm forward", .shape = rows.text(), .bytes = rows.bytes(2), .make = [=] {
         return keeping_output([x = rows.random(), weight = random_weight({rows.hidden}),
                                bias = random_weight({rows.hidden})] {
           return layer_norm_forward(x, weight, &bias, kLayerNorm);
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
  for (const Rows& rows :
       {Rows{16384, 2048}, Rows{8192, 4096}, Rows{49152, 896}, Rows{4096, 8192}}) {
    add_rms_norm(benchmarks, rows);
    add_rms_norm_backward(benchmarks, rows, /*with_residual=*/false, /*recomputes=*/false);
    add_rms_norm_backward(benchmarks, rows, /*with_residual=*/true, /*recomputes=*/false);
    add_rms_norm_backward(benchmarks, rows, /*with_residual=*/true, /*recomputes=*/true);
  }
  add_layer_norm(benchmarks, {16384, 2560});
  add_layer_norm(benchmarks, {8192, 4096});
}

}  // namespace packtrain
