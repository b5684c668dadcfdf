#include "framework/config/sophia_settings.h"

#include <fmt/format.h>

#include "framework/config/check_messages.h"
#include "framework/config/load.h"
#include "framework/config/objective_settings.h"

namespace packtrain {
namespace {

constexpr const char* kSophiaKeys[] = {"optimizer.gamma", "optimizer.hessian_every",
                                       "optimizer.hessian_share"};

void check_read_by_sophia(const Config& config, const SettingPlaces& places) {
  for (const char* key : kSophiaKeys) {
    fail_if_changed(config, key, "optimizer.name", "sophia", places);
  }
}

}  // namespace

void settle_sophia(OptimizerSection& optimizer, const SettingPlaces& places) {
  if (optimizer.name != "sophia") return;
  if (!places.contains("optimizer.betas")) optimizer.betas = {0.965, 0.99};
  if (!places.contains("optimizer.epsilon")) optimizer.epsilon = 1e-15;
}

void check_sophia(const Config& config, const SettingPlaces& places) {
  if (!has_hessian(config.optimizer)) return check_read_by_sophia(config, places);
  const std::string sophia =
      config.optimizer.name == "sophia"
          ? stated("optimizer.name", config.optimizer.name, places)
          : fmt::format("optimizer.groups ({}) name sophia", place_of("optimizer.groups", places));
  if (trains_groups(config.objective)) {
    fail_check(
        fmt::format("{}, but {}: its Hessian estimate needs labels that the model samples, and "
                    "this loss compares given answers",
                    sophia,
                    stated("objective.kind", config_value(config, "objective.kind"), places)),
        "Set optimizer.name: adamw, or objective.kind: next_token.");
  }
  if (config.adapters.empty()) return;
  fail_check(fmt::format("{}, but adapters ({}) are several: each would need a Hessian estimate "
                         "from steps of its own",
                         sophia, place_of("adapters", places)),
             "Set optimizer.name: adamw, or train each adapter in a run of its own.");
}

}  // namespace packtrain
