// A model small enough to differentiate by hand: scale, L x (tanh of a matrix product and a bias),
// loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "models/block/block.h"

namespace packtrain::test {

struct ToyOptions {
  int num_layers = 4;
  int hidden = 8;
  bool tied = false;                    // first and last block share their vector
  std::vector<int> frozen_layers = {};  // their matrices are not trained
  bool frozen_first = false;
  ParameterEncoding layer_encoding = {};  // of the layers' matrices; the rest is float32
  bool bias = false;                      // layers have one, which is trained
  bool first_bias = false;                // the first block adds a vector that the last has not
  bool in_fp8 = false;                    // the layers' products read their matrices in 8 bits
  int num_optimizers = 1;                 // the matrix of layer l is of number l % num_optimizers
  int num_adapters = 1;                   // the matrix of layer l is of number l % num_adapters
};

// The numbers of a weight [out, in] as an 8-bit product reads them, float32.
at::Tensor rounded_to_fp8(const Parameter& weight);

// The batch's `loss_weight`, viewed as [T, hidden], is what the first block scales.
std::vector<std::unique_ptr<Block>> make_toy_blocks(const ToyOptions& options);

}  // namespace packtrain::test
