#include "framework/config/optimizer_checks.h"

#include "framework/config/check_messages.h"

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

}  // namespace packtrain
