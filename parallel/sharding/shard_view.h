// A rank's part of the model, by parameter: the interface between sharding, optimizer and
// checkpoint. A parameter may be divided between ranks; each then has a range of its flattened
// elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/block/parameter_encoding.h"
#include "parallel/sharding/optimizer_state.h"

namespace packtrain {

// Of an encoded parameter, shape and elements are those stored: uint8; of NF4 whole groups.
struct ShardView {
  std::string parameter;
  std::vector<std::int64_t> shape;  // of the whole parameter
  std::int64_t begin = 0;           // first owned element of the flattened parameter
  std::int64_t numel = 0;           // owned elements
  bool trainable = true;
  // 1-D views [numel] of flat buffers on the device, or in host memory. `weight` is the exact state
  // of training: the master for trainable parameters, encoded values for frozen ones. A master is
  // float32, or the encoded values themselves (ParameterSpec::own_master).
  at::Tensor weight;
  std::vector<OptimizerTensor> optimizer = {};  // as declared; empty for frozen parameters
  bool in_adapter = false;                      // of a low-rank update, not of the model itself
  // The elements of each range (EncodedParameter). Empty: the weight is not encoded.
  std::vector<ElementRange> encoded_ranges = {};
  ParameterEncoding::Format format = ParameterEncoding::Format::kPlain;
  std::vector<std::int64_t> decoded_shape = {};  // of the parameter, if it is encoded
  // The index of its first element in FlatState and in ShardedModel::gradient(). Frozen: 0.
  std::int64_t state_begin = 0;
  // Which tensors an update writes in host memory (ShardingOptions::offload_state).
  bool weight_on_host = false;
  bool optimizer_on_host = false;
  at::Device device = at::kCPU;  // of the model's computation
};

}  // namespace packtrain
