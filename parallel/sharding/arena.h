// Communication memory of one role as one allocation. This is cheap to register, and a tensor has
// the same offset on every rank, as collectives on symmetric windows require.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace packtrain {

DataType communicator_type(at::ScalarType type);  // float32 and bfloat16 only

struct ArenaPart {
  std::int64_t numel = 0;
  at::ScalarType type = at::kFloat;
};

struct Arena {
  std::vector<at::Tensor> tensors;  // one for each part, 1-D
  std::int64_t num_bytes = 0;
};

// Collective: every rank of `communicator` passes the same parts. Returns tensors of zeros, each at
// a multiple of 4096 bytes (the alignment of NCCL's windows). They share the memory; the last
// tensor frees it. Peers may write as soon as it returns.
Arena allocate_arena(Communicator& communicator, at::Device device,
                     std::span<const ArenaPart> parts);

}  // namespace packtrain
