#include "framework/config/optimizer_checks.h"

#include "framework/config/check_messages.h"
#include "framework/config/load.h"
#include "framework/config/offload.h"

namespace packtrain {

// The rates of groups follow the rate of the section by their ratio.
void check_optimizer(const OptimizerSection& optimizer, const SettingPlaces& places) {
  if (optimizer.learning_rate > 0) return;
  for (const OptimizerGroupSetting& group : optimizer.groups) {
    if (group.learning_rate.value_or(0) == 0) continue;
    fail_check(
        fmt::format("{}, but optimizer.groups gives '{}' the rate {}",
                    stated("optimizer.learning_rate", 0, places), group.match,
                    *group.learning_rate),
        "Set optimizer.learning_rate above 0, and learning_rate: 0 in groups that do not move.");
  }
}

void check_offloaded_optimizer(const Config& config, const SettingPlaces& places) {
  if (!offloads_optimizer(config.memory.offload)) return;
  if (!has_factored_moments(config.optimizer)) return;
  const bool is_of_section = config.optimizer.name == "adafactor";
  fail_check(fmt::format("{}, but {}: its state is small, and stays on the device",
                         stated("memory.offload", config_value(config, "memory.offload"), places),
                         is_of_section ? stated("optimizer.name", "adafactor", places)
                                       : fmt::format("optimizer.groups ({}) name adafactor",
                                                     place_of("optimizer.groups", places))),
             "Set memory.offload: none or activations, or another optimizer.");
}

}  // namespace packtrain
