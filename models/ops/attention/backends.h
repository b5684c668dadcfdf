// Which library computes attention, by shape. In bfloat16 on CUDA: cuDNN wherever it serves,
// FlashAttention-2 for the other multiples of 8, above 128 before Hopper, and where runs must be
// bit-equal (cuDNN's deterministic backward keeps a score matrix: batch x heads x length^2 x 2
// bytes), the plain formula for soft-caps that cuDNN does not serve: libtorch's FlashAttention-2
// has none. Measured on an H200 (cuDNN 9.19, libtorch 2.11), 16/4 heads, 16,384 tokens, us forward
// + backward:
//   head_dim                     32    64    80    96   112   128   160   192   256
//   43 documents     cudnn      494   545   787   804   826   846  1629  1649  1696
//                    flash      610   825  1099  1033  1311  1270  1892  1809  2335
//   8 x 2048         cudnn      785   846  1155  1174  1204  1226  2589  2606  2993
//                    flash      841  1175  1759  1641  2073  1991  3403  3161  4252
// A soft-cap costs cuDNN a fifth to a third: 8/4 heads of 256, 16,384 tokens of FLAN-like
// documents, 1.46 ms without and 1.84 with one; the plain formula takes 24.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/attention/attention.h"

namespace packtrain {

// Never kAuto. A `shape.backend` other than kAuto is taken as it is, or refused.
// Throws Error(kConfig), naming the shape and what is supported, where nothing serves it.
AttentionBackend choose_attention_backend(const AttentionShape& shape, at::Device device,
                                          at::ScalarType dtype);

// Whether cuDNN has forward and backward for heads of this width on GPUs of this major compute
// capability. Other multiples of 8 than of 16 work, but their backward's workspace grows with
// sequences x length; above 128 there is no backward before Hopper (9).
bool cudnn_trains(std::int64_t head_dim, int capability_major);

const char* attention_backend_name(AttentionBackend backend);

}  // namespace packtrain
