// Communication memory of one role, as one allocation: cheap to register, and every rank finds a
// tensor at the same offset, as collectives on symmetric windows need it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicator.h"

namespace packtrain {

DataType communicator_type(at::ScalarType type);  // of float32 and bfloat16

struct ArenaPart {
  std::int64_t numel = 0;
  at::ScalarType type = at::kFloat;
};

struct Arena {
  std::vector<at::Tensor> tensors;  // one a part, 1-D
  std::int64_t num_bytes = 0;
};

// Tensors of zeros, each beginning at a multiple of 4096 bytes (a window's alignment in NCCL). They
// share the memory, which is freed with the last of them. Peers may write from here on. Collective:
// the same parts on every rank of `communicator`.
Arena allocate_arena(Communicator& communicator, at::Device device,
                     std::span<const ArenaPart> parts);

}  // namespace packtrain
