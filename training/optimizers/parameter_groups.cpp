#include "training/optimizers/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/wildcard.h"
#include "models/block/parameter_matrices.h"
#include "training/optimizers/adafactor.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {
namespace {

constexpr const char* kAdamW = "adamw";
constexpr const char* kMuon = "muon";
constexpr const char* kAdafactor = "adafactor";
// Moments of smaller parameters stay float32: they need little memory.
constexpr std::int64_t kSmallestInt8 = 4096;

// Adds what one number keeps. Tensors of one name have one type.
void add_state(std::vector<OptimizerStateSpec>& all, std::vector<OptimizerStateSpec> own,
               int number) {
  for (OptimizerStateSpec& spec : own) {
    auto found = std::ranges::find(all, spec.name, &OptimizerStateSpec::name);
    if (found == all.end()) {
      found = all.insert(all.end(), std::move(spec));
    } else if (found->dtype != spec.dtype) {
      throw Error(ErrorCategory::kInternal,
                  "two optimizers of one run have state '" + spec.name + "' of different types");
    }
    found->optimizers.push_back(number);
  }
}

[[noreturn]] void fail_unmatched(const OptimizerGroupSetting& group) {
  throw Error(ErrorCategory::kConfig,
              fmt::format("optimizer.groups: '{}' matches no trained parameter that an earlier "
                          "group has not matched",
                          group.match),
              "Names look like embed.weight, layers.0.attention.qkv.weight, final_norm.weight, "
              "head.weight; * matches any characters. `packtrain verify` prints all names.");
}

[[noreturn]] void fail_without_matrix() {
  throw Error(ErrorCategory::kConfig,
              "muon is the optimizer of no trained parameter: no matrix of a layer is trained",
              "An adapter's matrices are AdamW's: set optimizer.name: adamw. Or choose Muon for "
              "them by name: optimizer.groups: [{match: \"*lora*\", name: muon}].");
}

}  // namespace

ParameterGroups::ParameterGroups(OptimizerSection section) : section_(std::move(section)) {}

const std::string& ParameterGroups::name_of(int group) const {
  if (group == 0) return section_.name;
  const auto& name = section_.groups.at(static_cast<std::size_t>(group) - 1).name;
  return name ? *name : section_.name;
}

bool ParameterGroups::has_optimizer(std::string_view name) const {
  for (int group = 0; group < num_groups(); ++group) {
    if (name_of(group) == name) return true;
  }
  return false;
}

int ParameterGroups::of(const ParameterSpec& parameter, bool in_layer) const {
  const int number = number_of(parameter, in_layer);
  const std::string name = settings(number).name;
  const bool is_small = (name == kAdamW && has_int8() && parameter.numel() < kSmallestInt8) ||
                        (name == kAdafactor && !has_blocks_for_factors(parameter));
  return is_small ? num_wide() + number : number;
}

int ParameterGroups::number_of(const ParameterSpec& parameter, bool in_layer) const {
  const auto found = std::ranges::find_if(section_.groups, [&](const OptimizerGroupSetting& group) {
    return matches_wildcard(group.match, parameter.name);
  });
  const bool is_matched = found != section_.groups.end();
  const int group = is_matched ? static_cast<int>(found - section_.groups.begin()) + 1 : 0;
  if (name_of(group) != kMuon) return group;
  const bool is_asked_for = is_matched && found->name.has_value();
  const bool takes = is_asked_for || (in_layer && !parameter.in_adapter);
  return takes && !parameter_matrices(parameter).empty() ? group : num_groups() + group;
}

OptimizerSection ParameterGroups::settings(int number) const {
  const int of_group = number % num_groups();
  OptimizerSection settings = section_;
  settings.groups.clear();
  settings.name = number % num_wide() < num_groups() ? name_of(of_group) : kAdamW;
  const bool is_small = number >= num_wide();
  if (is_small && has_int8() && settings.name == kAdamW) settings.moments = Moments::kFloat32;
  if (of_group == 0) return settings;
  const OptimizerGroupSetting& group = section_.groups.at(static_cast<std::size_t>(of_group) - 1);
  settings.learning_rate = group.learning_rate.value_or(section_.learning_rate);
  settings.weight_decay = group.weight_decay.value_or(section_.weight_decay);
  if (group.weight_decay) settings.decay_norms_and_biases = true;
  return settings;
}

bool ParameterGroups::has_blocks(int number) const {
  const OptimizerSection own = settings(number);
  return (own.name == kAdamW && own.moments == Moments::kInt8) ||
         (own.name == kAdafactor && number < num_wide());
}

bool ParameterGroups::orthogonalises(int number) const {
  return settings(number).name == kMuon;
}

bool ParameterGroups::factors(int number) const {
  return settings(number).name == kAdafactor;
}

double ParameterGroups::rate_ratio(int number) const {
  const double rate = settings(number).learning_rate;
  return rate == section_.learning_rate ? 1.0 : rate / section_.learning_rate;
}

std::vector<OptimizerStateSpec> ParameterGroups::state() const {
  std::vector<OptimizerStateSpec> all;
  for (int number = 0; number < size(); ++number) {
    std::vector<OptimizerStateSpec> own = make_optimizer(settings(number), /*seed=*/0)->state();
    if (factors(number)) {  // in blocks or not
      std::erase_if(own, [&](const OptimizerStateSpec& spec) {
        return (spec.granularity == StateGranularity::kBlock) != has_blocks(number);
      });
    }
    add_state(all, std::move(own), number);
  }
  for (OptimizerStateSpec& spec : all) {
    if (static_cast<int>(spec.optimizers.size()) == size()) spec.optimizers.clear();
  }
  return all;
}

void ParameterGroups::check(std::span<const std::unique_ptr<Block>> blocks) const {
  std::vector<bool> used(static_cast<std::size_t>(size()), false);
  for (const std::unique_ptr<Block>& block : blocks) {
    for (const ParameterSpec& parameter : block->parameters()) {
      if (parameter.trainable) used[static_cast<std::size_t>(parameter.optimizer)] = true;
    }
  }
  if (std::ranges::find(used, true) == used.end()) return;
  const auto is_used = [&](int number) {
    const auto n = static_cast<std::size_t>(number);
    return used[n] || (has_small() && used[n + static_cast<std::size_t>(num_wide())]);
  };
  bool uses_muon = false;
  for (int group = 0; group < num_groups(); ++group) {
    const bool is_muon = name_of(group) == kMuon;
    uses_muon = uses_muon || (is_muon && is_used(group));
    if (group == 0 || is_used(group) || (is_muon && is_used(num_groups() + group))) continue;
    fail_unmatched(section_.groups[static_cast<std::size_t>(group) - 1]);
  }
  if (has_optimizer(kMuon) && !uses_muon) fail_without_matrix();
}

}  // namespace packtrain
