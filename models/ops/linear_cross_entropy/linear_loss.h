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
// If g depends on the losses and neither W, b nor the update has a gradient, then dx is computed
// with weights of 1, and its rows are multiplied by g. Else `row_losses` gets every chunk twice,
// first without weights. The logits of a single chunk are kept for that. Those of several chunks
// are computed a second time.
at::Tensor linear_loss(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                       const LinearLossOptions& options, const RowLosses& row_losses);

// Input of plan_head_chunks.
struct HeadSize {
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t element_bytes = 0;
  bool narrow_gradient = false;  // d weight is stored in less than float32
};

struct HeadChunks {
  std::int64_t rows = 0;  // of a chunk; the last one may have fewer
  std::int64_t logits_bytes = 0;
  std::int64_t gradient_bytes = 0;  // float32 sum of d weight, if any
  std::int64_t weight_bytes = 0;    // padded copy, if V is not a multiple of 8
};

// On a GPU, chunks have about 2 GiB of bfloat16 logits. Chunks of half as many rows are 3 % slower
// on an H200: 40.1 and 38.8 ms for 8192 x 4096 x 128256. For 16384 x 2048 it is 41.5 and 40.2 ms.
// One chunk is used when that takes no more memory than a chunk and the float32 sum.
HeadChunks plan_head_chunks(const HeadSize& size, bool on_gpu);

}  // namespace packtrain
