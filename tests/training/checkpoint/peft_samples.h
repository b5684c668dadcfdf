// Adapters with random values in PEFT folders, for tests.
#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/adapters/adapter_weights.h"
#include "models/adapters/lora_targets.h"
#include "training/checkpoint/peft_folder.h"

namespace packtrain::test {

using Values = std::map<std::string, at::Tensor>;  // of parameters, flattened

inline DecoderConfig adapted(DecoderConfig base, const LoraOptions& options) {
  base.adapter = std::make_shared<const AdapterTargets>(find_lora_targets(base, options));
  return base;
}

inline std::map<std::string, std::int64_t> sizes_of(const DecoderConfig& config) {
  std::map<std::string, std::int64_t> sizes;
  for (const WeightPiece& piece : adapter_weights(config)) sizes[piece.parameter] += piece.numel();
  return sizes;
}

inline Values random_values(const DecoderConfig& config) {
  Values values;
  for (const auto& [name, size] : sizes_of(config)) values[name] = at::randn({size});
  return values;
}

inline void write_values(const std::string& folder, const DecoderConfig& config,
                         const LoraOptions& options, const Values& values) {
  write_peft_folder(folder, config, options,
                    [&](const std::string& name) { return values.at(name); },
                    {.base_model = "base"});
}

// What `num_ranks` ranks read, each its own ranges of all parameters.
inline Values read_by_ranks(const std::string& folder, const DecoderConfig& config,
                            std::int64_t num_ranks) {
  Values values;
  std::vector<ShardView> shards;
  for (const auto& [name, size] : sizes_of(config)) {
    values[name] = at::full({size}, std::numeric_limits<float>::quiet_NaN());
    const std::int64_t share = size / num_ranks + 1;
    for (std::int64_t begin = 0; begin < size; begin += share) {
      const std::int64_t owned = std::min(share, size - begin);
      shards.push_back(
          {name, {size}, begin, owned, true, values[name].narrow(0, begin, owned), {}});
    }
  }
  read_peft_weights(folder, config, shards);
  return values;
}

inline LoraOptions options_of_rank(std::int64_t rank) {
  LoraOptions options;
  options.rank = rank;
  return options;
}

}  // namespace packtrain::test
