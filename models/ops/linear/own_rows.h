// Low-rank rows of several adapters: each one has values in its own rows alone.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/adapter_rows.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

// s [T, R], float32 or bfloat16, contiguous, has the columns of all modules. In place, multiplies
// the columns of a module by its scale in the rows of its adapter, and sets all others to zero.
void scale_own_rows(const at::Tensor& s, const LoraModules& modules, const AdapterRows& rows);
void scale_own_rows_cuda(const at::Tensor& s, const LoraModules& modules, const at::Tensor& begins);

}  // namespace packtrain
