// The precompiled header of files with tensors: the few libtorch headers that each of them needs.
// Operators are included one by one (ATen/ops/<name>.h) where they are used.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>
