// Chooses the library that computes attention, by shape. In bfloat16 on CUDA this is cuDNN for
// every shape that it supports. FlashAttention-2 has the other multiples of 8, and heads above 128
// before Hopper. It also has runs that must be bit-equal, because cuDNN's deterministic backward
// keeps a score matrix of batch x heads x length^2 x 2 bytes. The plain formula has soft caps that
// cuDNN does not support, because libtorch's FlashAttention-2 has none. Heads of 512 elements have
// kernels of our own, and other heads of more than 256 the plain formula. Measured on an H200
// (cuDNN 9.19, libtorch 2.11), 16/4 heads, 16,384 tokens, us forward + backward:
//    head_dim                     32    64    80    96   112   128   160   192   256
//    43 documents     cudnn      494   545   787   804   826   846  1629  1649  1696
//                     flash      610   825  1099  1033  1311  1270  1892  1809  2335
//    8 x 2048         cudnn      785   846  1155  1174  1204  1226  2589  2606  2993
//                     flash      841  1175  1759  1641  2073  1991  3403  3161  4252
// A soft cap slows cuDNN by a fifth to a third. Example: 8/4 heads of 256, 16,384 tokens of
// FLAN-like documents. cuDNN takes 1.84 ms with a cap and 1.46 ms without. The plain formula takes
// 24 ms.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/attention/attention.h"

namespace packtrain {

// Never returns kAuto. A `shape.backend` other than kAuto is used as given. Throws Error(kConfig),
// which names the shape and what is supported, when no backend supports it.
// All serve segments with prefixes, except kReference on CUDA. With kAuto and `has_prefixes` the
// plain formula serves them there.
AttentionBackend choose_attention_backend(const AttentionShape& shape, at::Device device,
                                          at::ScalarType dtype, bool has_prefixes = false);

// True when cuDNN has forward and backward for heads of this width on GPUs of this major compute
// capability. Widths that are multiples of 8 but not of 16 would work, but the workspace of their
// backward grows with sequences x length. Above 128 there is no backward before Hopper (9).
bool cudnn_trains(std::int64_t head_dim, int capability_major);

const char* attention_backend_name(AttentionBackend backend);

}  // namespace packtrain
