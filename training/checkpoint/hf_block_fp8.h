// Tensors of 8-bit floats in blocks, in the files of a Hugging Face folder. DeepSeek-V3 and others
// are published so (quant_method "fp8", weight_block_size [128, 128]). The source of the format is
// DeepSeek-AI, arXiv 2412.19437, 3.3. A file has the codes NAME, e4m3 [R, C] or [E, R, C], and
// NAME_scale_inv, float32 [R / 128, C / 128] rounded up, or [E, ...]. An element is its code times
// the scale of its block.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "training/checkpoint/hf_files.h"

namespace packtrain {

inline constexpr std::string_view kBlockScaleSuffix = "_scale_inv";

struct BlockFp8Tensor {
  HfTensor codes;
  HfTensor scales;
  // The tensor without its encoding: its data are the codes. Readers look here first.
  std::shared_ptr<const TensorView> plain;
};

using BlockFp8Tensors = std::map<std::string, BlockFp8Tensor>;

// True for codes with scales, and for the scales of codes.
bool is_block_fp8(const std::map<std::string, HfTensor>& tensors, const std::string& name);

// Removes the scales from `tensors`, which then has each tensor under its name. Throws
// Error(kCheckpoint), which names the tensor, when its scales are missing, or are not float32 of
// one number for each block of 128 x 128.
BlockFp8Tensors take_block_fp8_tensors(std::map<std::string, HfTensor>& tensors);

// Decodes elements [first, first + values.size()) of the flattened tensor. Products are rounded to
// float32. The code of NaN is NaN.
void decode_block_fp8(const BlockFp8Tensor& tensor, std::int64_t first, std::span<float> values);

}  // namespace packtrain
