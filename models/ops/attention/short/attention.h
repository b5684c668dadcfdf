// The backward of attention over short sequences, by kernels of our own. They keep a sequence on
// chip. cuDNN's kernels write dq, and dk and dv of all query heads, to memory before their sums.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "models/ops/attention/attention.h"
#include "models/ops/attention/packed_heads.h"
#include "models/ops/attention/short/units.h"

namespace packtrain {

// A batch's sequences, divided by their kernels. Tensors are on the device of the batch.
struct ShortUnits {
  std::int64_t max_keys = 0;
  std::int64_t num_units = 0;
  std::int64_t num_tiles = 0;
  at::Tensor units;           // bytes of AttentionUnit [num_units]
  at::Tensor long_sequences;  // int32 [L]; undefined if there is none
  // The boundaries of the long ones in cuDNN's form. The first layer fills this.
  std::shared_ptr<const AttentionLayout> long_layout;
};

// The layers of a batch share these.
struct ShortDivisions {
  std::vector<std::pair<AttentionShape, std::int64_t>> limits;
  std::map<std::int64_t, ShortUnits> units;  // by max_keys
};

// Sequences of at most `max_keys` keys are short. Cached in the batch for the next layers.
ShortUnits& short_units(DeviceBatch& batch, std::int64_t max_keys);

// The `max_keys` for which the backward is predicted to be fastest (division.h); 0: cuDNN has all.
// Cached in the batch for the next layers of this shape.
std::int64_t short_limit(DeviceBatch& batch, const AttentionShape& shape);

// True if the kernels serve heads of this shape in bfloat16 on CUDA.
bool short_attention_serves(const AttentionShape& shape);
// True if the kernel with Hopper's instructions serves them. The portable one has the others.
bool hopper_kernel_serves(std::int64_t head_dim);

// Multiprocessors of the current GPU, and whether its kernels have Hopper's instructions. Read once
// a process; its GPUs are assumed to be equal.
struct ShortKernels {
  int num_multiprocessors = 0;
  bool has_hopper = false;
  bool fit = false;  // the shared memory of a block is large enough
};
ShortKernels short_kernels();

// Writes gradients of all rows of the short sequences into `grad`. Its query has the row stride of
// `in.heads.query`. Its key and value are dense. `stats` are logsumexps, float32 [T, num_heads].
void short_backward(const at::Tensor& grad_output, const PackedHeads& in, const at::Tensor& y,
                    const at::Tensor& stats, const AttentionShape& shape, const ShortUnits& units,
                    const HeadGradients& grad);

}  // namespace packtrain
