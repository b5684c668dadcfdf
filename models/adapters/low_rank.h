// Low-rank parts of weights, from which PiSSA and LoftQ begin. All tensors are on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "models/ops/linear/lora_module.h"

namespace packtrain {

struct LowRankPart {
  at::Tensor a;  // float32 [rank, inputs]
  at::Tensor b;  // float32 [outputs, rank]
};

// Nothing: of the whole matrix, by LAPACK. Otherwise randomized, with this number of iterations of
// subspaces (Halko, Martinsson and Tropp, arXiv 0909.4061). The random matrix depends on the seed
// and the name.
struct DecompositionOptions {
  std::optional<std::int64_t> num_iterations = {};
  std::uint64_t seed = 0;
  std::string name = {};
};

// The part U S V^T of `matrix` with the `rank` largest singular values. `matrix`: float32 [outputs,
// inputs]. The result has a = sqrt(S / scale) V^T and b = U sqrt(S / scale). So scale b a is the
// part. In each row of a the element of largest magnitude is positive. `rank` is at most the
// smaller dimension.
LowRankPart largest_part(const at::Tensor& matrix, std::int64_t rank, double scale,
                         const DecompositionOptions& options);

// Subtracts scale B A of `modules` from `values`, contiguous float32 [n], which are elements
// [begin, begin + n) of their weight [.., inputs]. `a`: float32 [total_rank(modules), inputs].
// `b`: float32 [num_rows, rank] of each module. Any ranges of a weight have the values of the
// whole.
void subtract_updates(const LoraModules& modules, const at::Tensor& a,
                      std::span<const at::Tensor> b, std::int64_t begin, const at::Tensor& values);

}  // namespace packtrain
