// Tensors that bitsandbytes has quantised to NF4, in the files of a Hugging Face folder. A file
// has the codes, uint8 [n / 2, 1], and under the name of the tensor:
//    absmax uint8 [n / 64], nested_absmax float32, quant_map float32 [16],
//    nested_quant_map float32 [256], quant_state.bitsandbytes__nf4: a JSON object as uint8
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "training/checkpoint/hf_text_tower.h"

namespace packtrain {

struct BitsandbytesTensor {
  HfTensor codes;
  HfTensor absmax;
  HfTensor nested_absmax;
  float offset = 0;
  // The tensor without its encoding: its data are the codes. Readers look here first.
  std::shared_ptr<const TensorView> plain;

  std::int64_t numel() const { return plain->numel(); }
};

using BitsandbytesTensors = std::map<std::string, BitsandbytesTensor>;

// Removes what describes NF4 tensors from `tensors`, which then has each under its name with the
// shape of the weight. Throws Error(kCheckpoint) with the tensor when something is missing, or is
// not what double quantisation in blocks of 64 and 256 writes.
BitsandbytesTensors take_bitsandbytes_tensors(HfTensors& tensors);

// Fills `groups` (uint8, any device) with the tensor's NF4 groups from `first_group` on.
void read_groups(const BitsandbytesTensor& tensor, std::int64_t first_group,
                 const at::Tensor& groups);

// All values: float32 [numel], on the CPU.
at::Tensor decode(const BitsandbytesTensor& tensor);

}  // namespace packtrain
