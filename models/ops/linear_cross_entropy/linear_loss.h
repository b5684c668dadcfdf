// The head's projection and the losses of its rows, with the gradients:
//    z = x W^T + b;  l_n is a function of z_n;  the loss is a function of all l_n
//    dz_n = g_n dl_n / dz_n, with g_n = d loss / d l_n;  dx = dz W;  dW = dz^T x;  db = sum_n dz_n
// x [N, H] has only the rows that the loss reads. x, W [V, H], b [V] and the logits z are float32
// or bfloat16. The gradients of W and b have that dtype or are float32.
//
// Works on chunks of rows, so that neither [N, V] nor a float32 copy of it exists. dz overwrites
// the logits of a chunk. The GEMM itself sums dW over chunks in float32; db is summed separately.
// Deterministic. Operations: 2 N V H forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "models/block/block.h"
#include "models/block/operator_options.h"
#include "models/ops/linear_cross_entropy/head_chunks.h"

namespace packtrain {

// Logits of rows [begin, begin + n) of x.
struct LogitsChunk {
  at::Tensor logits;  // [n, V], rows start at multiples of 16 bytes
  std::int64_t begin = 0;
  // float32 [n]: g. The caller's function overwrites `logits` by dz. Undefined: by nothing.
  at::Tensor weights = {};
};

// A low-rank update of W (models/ops/linear/lora.h): z += s B^T, ds = dz B, dB = dz^T s.
struct LogitsUpdate {
  at::Tensor s;                  // [N, rank], scaled
  const Parameter* b = nullptr;  // [V, rank]
  at::Tensor grad_s = {};        // [N, rank], which is written; only with gradients
};

using RowLosses = std::function<void(const LogitsChunk&)>;

// g: float32 [N].
struct RowWeights {
  at::Tensor known = {};  // or undefined
  // Else: called when the losses of all rows are written.
  std::function<at::Tensor()> from_losses = {};
};

struct LinearLossOptions {
  bool gradients = false;
  RowWeights weights = {};      // only read with gradients
  std::int64_t chunk_rows = 0;  // 0: see plan_head_chunks
  GemmTiming gemm_timing = {};
  const LogitsUpdate* update = nullptr;  // or null
};

// Calls `row_losses` with the chunks in order. With gradients it also writes dW and db, and returns
// dx [N, H]; else the result is undefined. N = 0 calls nothing and gives zero gradients. `bias` may
// be null.
//
// Where g depends on the losses, `row_losses` gets every chunk twice, first without weights. The
// logits of a single chunk are kept for that. Those of several chunks are computed a second time.
// Where neither W, b nor the update has a gradient, one pass suffices: dx is computed with weights
// of 1, and its rows are multiplied by g.
at::Tensor linear_loss(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                       const LinearLossOptions& options, const RowLosses& row_losses);

}  // namespace packtrain
