// Arguments of the kernels of AdamW with 8-bit moments: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "training/optimizers/adamw_arguments.h"
#include "training/optimizers/dynamic_map.h"

namespace packtrain {

// Codes of one moment with the largest magnitude of each block.
struct CodedMoment {
  std::uint8_t* codes = nullptr;
  float* largest = nullptr;  // [blocks]
};

// All pieces begin and end at blocks.
struct AdamW8Arguments : PartArguments, AdamWScalars {
  CodedMoment first;
  CodedMoment second;
};

// On libtorch's current stream of the device. Throws Error(kDevice) in a build without CUDA.
void adamw8_cuda(const AdamW8Arguments& arguments, int device_index);
// The kernel; `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_adamw8(const AdamW8Arguments& arguments, void* stream);
// Updates elements [begin, end), whole blocks of one piece. Does not read `skip`.
void adamw8_cpu_range(const AdamW8Arguments& arguments, const UpdatePiece& piece,
                      std::int64_t begin, std::int64_t end);

}  // namespace packtrain
