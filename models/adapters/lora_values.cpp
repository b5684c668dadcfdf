#include "models/adapters/lora_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "models/decoder/initialize.h"

namespace packtrain {
namespace {

constexpr std::string_view kLoraA = ".lora_A";
constexpr std::string_view kEmbeddingPrefix = "embed.";

Initialization initialization_of(const AdapterTargets& targets, const LoraModule& module,
                                 std::int64_t num_inputs) {
  if (targets.initialization == LoraInitialization::kGaussian) {
    return {Initialization::Kind::kNormal, 1 / static_cast<double>(module.rank)};
  }
  return {Initialization::Kind::kUniform, 1 / std::sqrt(3 * static_cast<double>(num_inputs))};
}

// The adapter of several that has the parameter.
const AdapterTargets& owner_of(const AdapterTargets& targets, const std::string& parameter) {
  const auto owner = std::ranges::find_if(targets.several, [&](const AdapterTargets& one) {
    return parameter.ends_with(name_ending(one.name));
  });
  return owner == targets.several.end() ? targets : *owner;
}

const LoraModules& modules_of(const AdapterTargets& targets, const std::string& parameter) {
  const std::size_t ending = kLoraA.size() + name_ending(targets.name).size();
  const std::string name = parameter.substr(0, parameter.size() - ending);
  const LoraModules* modules = targets.find(name + ".weight");
  if (modules == nullptr) {
    throw Error(ErrorCategory::kInternal, "the adapter has no parameter " + parameter);
  }
  return *modules;
}

}  // namespace

void initialize_adapter(const AdapterTargets& all, const ParameterSpec& parameter,
                        std::uint64_t seed, std::int64_t begin, const at::Tensor& values) {
  const AdapterTargets& targets = owner_of(all, parameter.name);
  const std::string ending = std::string(kLoraA) + name_ending(targets.name);
  const bool of_embedding = parameter.name.starts_with(kEmbeddingPrefix);
  const bool is_a = parameter.name.ends_with(ending);
  if (is_a == of_embedding) {
    values.zero_();
    return;
  }
  if (of_embedding) {
    ParameterSpec own = parameter;
    own.initialization = {Initialization::Kind::kNormal, 1.0};
    return initialize(own, seed, begin, values);
  }
  const std::int64_t width = parameter.shape.back();
  const std::int64_t end = begin + values.numel();
  std::int64_t first = 0;  // of the module, in the parameter
  for (const LoraModule& module : modules_of(targets, parameter.name)) {
    // Experts have one module, with an A for each.
    const bool of_experts = parameter.shape.size() == 3;
    const std::int64_t num_rows = (of_experts ? parameter.shape.front() : 1) * module.rank;
    const std::int64_t last = first + num_rows * width;
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, last);
    if (from < to) {
      ParameterSpec own{module.name + ending, {num_rows, width}};
      own.initialization = initialization_of(targets, module, width);
      initialize(own, seed, from - first, values.narrow(0, from - begin, to - from));
    }
    first = last;
  }
}

}  // namespace packtrain
