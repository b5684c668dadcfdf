// Rotary positions, alone and with norms of queries and keys, and the heads of latent attention.
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/latent_heads/latent_heads.h"
#include "models/ops/qk_norm/qk_norm.h"
#include "models/ops/rotary/rotary.h"
#include "models/ops/rotary/rotary_frequencies.h"

namespace packtrain {
namespace {

struct Heads {
  std::int64_t tokens;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;

  std::int64_t num_rotated() const { return num_heads + num_kv_heads; }
  std::int64_t num_all() const { return num_rotated() + num_kv_heads; }
  at::Tensor random(std::int64_t count) const {
    return random_numbers({tokens, count, head_dim}, at::kBFloat16);
  }
  // Bytes of `count` heads of all tokens.
  double bytes(std::int64_t count) const {
    return 2.0 * static_cast<double>(tokens * count * head_dim);
  }
  std::string text() const { return shape_text({tokens, num_all(), head_dim}); }
  at::Tensor position_ids() const {
    return at::arange(tokens, at::TensorOptions(at::kInt).device(at::kCUDA, 0));
  }
  at::Tensor frequencies() const {
    const std::vector<float> values = rotary_frequencies({}, head_dim);
    return at::tensor(values, at::TensorOptions(at::kFloat)).to(at::Device(at::kCUDA, 0));
  }
  RotaryOptions options() const { return {.num_rotated_heads = num_rotated()}; }
};

void add_rotary_pair(OpBenchmarks& benchmarks, const Heads& heads) {
  benchmarks.push_back({.name = "rotary forward",
                        .shape = heads.text(),
                        .bytes = heads.bytes(2 * heads.num_rotated()),
                        .make = [=] {
                          return Call([=, qkv = heads.random(heads.num_all()),
                                       position_ids = heads.position_ids(),
                                       frequencies = heads.frequencies()]() mutable {
                            rotary_forward_(qkv, position_ids, frequencies, heads.options());
                          });
                        }});
  benchmarks.push_back({.name = "rotary backward",
                        .shape = heads.text(),
                        .bytes = heads.bytes(2 * heads.num_all()),
                        .make = [=] {
                          return keeping_output([=, query = heads.random(heads.num_heads),
                                                 key = heads.random(heads.num_kv_heads),
                                                 value = heads.random(heads.num_kv_heads),
                                                 position_ids = heads.position_ids(),
                                                 frequencies = heads.frequencies()] {
                            return rotary_backward(query, key, value, position_ids, frequencies,
                                                   heads.options());
                          });
                        }});
}

void add_qk_norm(OpBenchmarks& benchmarks, const Heads& heads) {
  const auto forward = [=](const at::Tensor& qkv, const Parameter& query, const Parameter& key) {
    return keeping_output(
        [=, position_ids = heads.position_ids(), frequencies = heads.frequencies()] {
          return qk_norm_forward(qkv, {query, key, heads.num_heads, {}}, position_ids, frequencies,
                                 heads.options());
        });
  };
  const auto backward = [=](const at::Tensor& qkv, const Parameter& query, const Parameter& key) {
    const at::Tensor position_ids = heads.position_ids();
    const at::Tensor frequencies = heads.frequencies();
    const at::Tensor inverse_rms = qk_norm_forward(qkv, {query, key, heads.num_heads, {}},
                                                   position_ids, frequencies, heads.options())
                                       .inverse_rms;
    return keeping_output([=, grad_query = heads.random(heads.num_heads),
                           grad_key = heads.random(heads.num_kv_heads),
                           grad_value = heads.random(heads.num_kv_heads)] {
      return qk_norm_backward(grad_query, grad_key, grad_value, qkv, inverse_rms,
                              {query, key, heads.num_heads, {}}, position_ids, frequencies,
                              heads.options());
    });
  };
  const auto make = [=](const auto& direction) {
    return [=] {
      return direction(heads.random(heads.num_all()), random_weight({heads.head_dim}),
                       random_weight({heads.head_dim}));
    };
  };
  benchmarks.push_back({.name = "qk_norm with rotary forward",
                        .shape = heads.text(),
                        .bytes = heads.bytes(2 * heads.num_all()),
                        .make = make(forward)});
  benchmarks.push_back({.name = "qk_norm with rotary backward",
                        .shape = heads.text(),
                        .bytes = heads.bytes(3 * heads.num_rotated() + 2 * heads.num_kv_heads),
                        .make = make(backward)});
}

void add_latent_heads(OpBenchmarks& benchmarks, std::int64_t tokens, const LatentHeadShape& shape) {
  const std::int64_t heads = shape.num_heads;
  const std::int64_t merged = 3 * heads * shape.head_dim();
  const std::int64_t parts = heads * (shape.head_dim() + shape.unturned_dim + shape.value_dim);
  const double bytes = 2.0 * static_cast<double>(tokens * (merged + parts + shape.rotary_dim));
  const auto random = [=](std::int64_t width) {
    return random_numbers({tokens, width}, at::kBFloat16);
  };
  benchmarks.push_back({.name = "latent heads forward",
                        .shape = shape_text({tokens, 3 * heads, shape.head_dim()}),
                        .bytes = bytes,
                        .make = [=] {
                          const LatentHeads from = {
                              random(heads * shape.head_dim()),
                              random(heads * (shape.unturned_dim + shape.value_dim)),
                              random(shape.rotary_dim)};
                          return keeping_output([=] { return merge_latent_heads(from, shape); });
                        }});
  benchmarks.push_back(
      {.name = "latent heads backward",
       .shape = shape_text({tokens, 3 * heads, shape.head_dim()}),
       .bytes = bytes,
       .make = [=] {
         const at::Tensor grad = random(merged).view({tokens, 3 * heads, shape.head_dim()});
         return keeping_output([=] { return merge_latent_heads_backward(grad, shape).query; });
       }});
}

}  // namespace

void add_positions(OpBenchmarks& benchmarks) {
  add_rotary_pair(benchmarks, {16384, 32, 8, 128});
  add_rotary_pair(benchmarks, {16384, 32, 8, 64});
  add_rotary_pair(benchmarks, {32768, 14, 2, 64});
  add_qk_norm(benchmarks, {16384, 32, 8, 128});
  add_latent_heads(benchmarks, 16384, {16, 64, 128, 128});
}

}  // namespace packtrain
