// Initial values of an adapter that are computed from one weight under it: A and B of PiSSA and
// LoftQ, and the magnitudes of DoRA.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/layers/adapter_targets.h"
#include "training/setup/adapter_residual.h"
#include "training/setup/model_source.h"

namespace packtrain {

struct FromWeight {
  const AdapterTargets* targets = nullptr;
  const ParameterSpec* spec = nullptr;
  const LoraModules* modules = nullptr;

  // True when A and B are computed. LoftQ leaves weights that are not in NF4 without an error to
  // begin from.
  bool decomposes() const;
  // The number of values that compute() returns.
  std::int64_t numel() const;
  // Float32 on the CPU: A, B of each module, and the magnitudes of each. Reads the whole weight.
  // Throws Error(kConfig) for LoftQ when the source's weight is in NF4 already.
  at::Tensor compute(const ModelSource& source, std::uint64_t seed) const;

  // The parts of these values.
  InitialUpdate update(const at::Tensor& values) const;
  std::vector<at::Tensor> magnitudes(const at::Tensor& values) const;

 private:
  std::int64_t num_factor_values() const;
};

// True when initial values of the adapter depend on the weights under it.
bool begins_from_base(const AdapterTargets& targets);

using SpecsOfNames = std::map<std::string, const ParameterSpec*>;

// The weights from which the adapter, or several, begin.
std::vector<FromWeight> find_weights(const AdapterTargets& all, const SpecsOfNames& specs);

}  // namespace packtrain
