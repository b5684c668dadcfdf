#include "training/setup/lora_section.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "framework/core/error.h"

namespace packtrain {
namespace {

std::int64_t whole_rank(const NumberOfName& rank) {
  if (rank.number >= 1 && rank.number == std::floor(rank.number)) {
    return static_cast<std::int64_t>(rank.number);
  }
  throw Error(ErrorCategory::kConfig,
              fmt::format("adapter.rank_pattern: {} has rank {}, wanted an integer >= 1", rank.name,
                          rank.number),
              "Give a whole number.");
}

LoraInitialization initialization_of(LoraInit::Kind kind) {
  switch (kind) {
    case LoraInit::Kind::kGaussian:
      return LoraInitialization::kGaussian;
    case LoraInit::Kind::kPissa:
      return LoraInitialization::kPissa;
    case LoraInit::Kind::kPissaNiter:
      return LoraInitialization::kPissaNiter;
    case LoraInit::Kind::kLoftq:
      return LoraInitialization::kLoftq;
    case LoraInit::Kind::kDefault:
      break;
  }
  return LoraInitialization::kDefault;
}

}  // namespace

LoraOptions lora_options(const AdapterSection& section) {
  LoraOptions options;
  options.name = section.name;
  options.rank = section.rank;
  options.alpha = section.alpha;
  options.use_rslora = section.use_rslora;
  options.use_dora = section.use_dora;
  options.targets = section.targets;
  options.exclude = section.exclude;
  options.layers_to_transform = section.layers_to_transform;
  for (const NumberOfName& rank : section.rank_pattern) {
    options.rank_pattern.emplace_back(rank.name, whole_rank(rank));
  }
  for (const NumberOfName& alpha : section.alpha_pattern) {
    options.alpha_pattern.emplace_back(alpha.name, alpha.number);
  }
  options.dropout = section.dropout;
  options.initialization = initialization_of(section.init.kind);
  options.num_iterations = section.init.num_iterations;
  options.save = section.save;
  return options;
}

AdapterSection adapter_section(const LoraOptions& options) {
  AdapterSection section;
  section.rank = options.rank;
  section.alpha = options.alpha;
  section.use_rslora = options.use_rslora;
  section.use_dora = options.use_dora;
  section.targets = options.targets;
  section.exclude = options.exclude;
  section.layers_to_transform = options.layers_to_transform;
  for (const auto& [name, rank] : options.rank_pattern) {
    section.rank_pattern.push_back({name, static_cast<double>(rank)});
  }
  for (const auto& [name, alpha] : options.alpha_pattern) {
    section.alpha_pattern.push_back({name, alpha});
  }
  section.dropout = options.dropout;
  section.save = options.save;
  return section;
}

}  // namespace packtrain
