// Which weights of a model have a low-rank update, and which are trained whole with it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "models/ops/linear/lora_module.h"

namespace packtrain {

enum class LoraInitialization {
  kDefault,   // A uniform within 1 / sqrt(inputs), B zero
  kGaussian,  // A normal with deviation 1 / rank, B zero
};

// Names are those of the model's parameters, with the prefix of their block:
// layers.0.attention.qkv.weight.
struct AdapterTargets {
  std::map<std::string, LoraModules> weights;
  std::set<std::string> trained;  // whole, with the adapter; all others are frozen
  double dropout = 0;             // of the input of A, in training
  LoraInitialization initialization = LoraInitialization::kDefault;

  // Null for a weight without an adapter.
  const LoraModules* find(const std::string& weight) const {
    const auto found = weights.find(weight);
    return found == weights.end() ? nullptr : &found->second;
  }
};

}  // namespace packtrain
