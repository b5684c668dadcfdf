// Which weights of a model have a low-rank update, and which are trained whole with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/ops/linear/lora_module.h"

namespace packtrain {

// Of PiSSA and LoftQ, scale B A is the nearest matrix of the rank to a matrix M of the module: its
// largest singular values. A and B have their square roots.
enum class LoraInitialization : std::uint8_t {
  kDefault,     // A uniform within 1 / sqrt(inputs), B zero
  kGaussian,    // A normal with deviation 1 / rank, B zero
  kPissa,       // M: the weight W. The model's weight becomes W - scale B A. arXiv 2404.02948
  kPissaNiter,  // the same with a randomized singular value decomposition
  kLoftq,       // M: the error of W in NF4, W - decode(W). arXiv 2310.08659, one iteration
};
inline bool is_pissa(LoraInitialization initialization) {
  return initialization == LoraInitialization::kPissa ||
         initialization == LoraInitialization::kPissaNiter;
}
// True when initial values are computed from the weights of the model.
inline bool is_from_base(LoraInitialization initialization) {
  return is_pissa(initialization) || initialization == LoraInitialization::kLoftq;
}

// The end of the names of an adapter's parameters.
inline std::string name_ending(const std::string& adapter) {
  return adapter.empty() ? "" : "." + adapter;
}

// Names are those of the model's parameters, with the prefix of their block:
// layers.0.attention.qkv.weight.
struct AdapterTargets {
  std::string name;  // the end of its parameters' names, or empty
  std::map<std::string, LoraModules> weights;
  std::set<std::string> trained;  // whole, with the adapter; all others are frozen
  double dropout = 0;             // of the input of A, in training
  bool use_dora = false;          // rows have magnitudes of their own (ops/linear/dora.h)
  LoraInitialization initialization = LoraInitialization::kDefault;
  std::int64_t num_iterations = 0;  // of kPissaNiter
  // Adapters that are trained together, each on rows of its own. The members above are then empty.
  std::vector<AdapterTargets> several;

  // Null for a weight without an adapter.
  const LoraModules* find(const std::string& weight) const {
    const auto found = weights.find(weight);
    return found == weights.end() ? nullptr : &found->second;
  }
  // True when any adapter has dropout.
  bool drops() const { return dropout > 0 || std::ranges::any_of(several, &AdapterTargets::drops); }
};

// The low-rank update that one adapter makes to a weight.
struct WeightUpdate {
  std::shared_ptr<const LoraModules> modules;  // null: this adapter of several has none
  double dropout = 0;
  std::string adapter;  // AdapterTargets::name
  bool use_dora = false;
};

}  // namespace packtrain
