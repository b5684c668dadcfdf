#include "models/estimates/layer_tapes.h"

#include <fmt/format.h>

#include <string>

#include "models/decoder/layer_operators.h"
#include "models/decoder/parameters.h"

namespace packtrain {

namespace {

// What makes layers differ.
struct LayerKind {
  LayerPattern pattern;
  std::string adapter;  // its matrices in the layer, and what is trained whole
  std::string kept;     // weights that stay out of 8-bit products
  bool expands;         // makes the copies of the hidden state (DecoderConfig::altup)

  bool operator==(const LayerKind&) const = default;
};

std::string adapter_of_layer(const AdapterTargets& adapter, std::int64_t layer) {
  const std::string prefix = fmt::format("layers.{}.", layer);
  std::string text = adapter.name;
  const auto& weights = adapter.weights;
  for (auto it = weights.lower_bound(prefix); it != weights.end() && it->first.starts_with(prefix);
       ++it) {
    text += it->first.substr(prefix.size());
    for (const LoraModule& module : it->second) {
      text += fmt::format(" {}+{} {}", module.begin, module.num_rows, module.rank);
    }
  }
  for (const std::string& name : adapter.trained) {
    if (name.starts_with(prefix)) text.append(" ").append(name, prefix.size());
  }
  for (const AdapterTargets& one : adapter.several) text += adapter_of_layer(one, layer);
  return text;
}

std::string kept_of_layer(const DecoderConfig& config, std::int64_t layer) {
  if (config.linear.keep.empty()) return {};
  const std::size_t prefix = fmt::format("layers.{}.", layer).size();
  std::string text;
  for (const ParameterSpec& spec : layer_parameters(config, layer)) {
    if (config.linear.keeps(spec.name)) text.append(" ").append(spec.name, prefix);
  }
  return text;
}

}  // namespace

LayerTapes::LayerTapes(const DecoderConfig& config, const MicroBatchShape& size) {
  std::vector<LayerKind> kinds;
  const std::int64_t last = config.num_layers - 1;
  for (std::int64_t layer = 0; layer <= last; ++layer) {
    const LayerKind kind{
        config.layer(layer),
        config.adapter == nullptr ? std::string() : adapter_of_layer(*config.adapter, layer),
        kept_of_layer(config, layer), layer == 0 && config.altup.exists()};
    std::size_t number = 0;
    while (number < kinds.size() && !(kinds[number] == kind)) ++number;
    if (number == kinds.size() || layer == last) {
      number = kinds.size();
      kinds.push_back(kind);
      tapes_.push_back(layer_shapes(config, layer, size));
    }
    tape_of_.push_back(number);
  }
}

}  // namespace packtrain
