#include "framework/config/unread_checks.h"

#include <string>

#include "framework/config/adapters.h"
#include "framework/config/check_messages.h"

namespace packtrain {
namespace {

void check_momentum(const Config& config, const SettingPlaces& places) {
  if (uses_optimizer(config.optimizer, "muon")) return;
  fail_if_changed(config, "optimizer.momentum", "optimizer.name", "muon", places);
}

void check_decay_keys(const Config& config, const SettingPlaces& places) {
  if (config.schedule.name == ScheduleKind::kWarmupStableDecay) return;
  for (const char* key : {"schedule.decay_ratio", "schedule.decay_steps", "schedule.decay_shape"}) {
    fail_if_changed(config, key, "schedule.name", "warmup_stable_decay", places);
  }
}

// The whole model would be trained, where a low-rank update is wanted. A sweep over adapter.kind
// keeps the other keys, so that they are allowed where the kind or `adapters` is given.
void check_adapter_keys(const Config& config, const SettingPlaces& places) {
  if (trains_adapter(config)) return;
  if (places.contains("adapter.kind") || places.contains("adapters")) return;
  for (const auto& [key, place] : places) {
    if (!key.starts_with("adapter.")) continue;
    fail_check(key + " is given (" + place +
                   "), but adapter.kind is none (default): the whole model would be trained",
               "Set adapter.kind: lora; or leave the key out, or set adapter.kind: none.");
  }
}

}  // namespace

void check_keys_are_read(const Config& config, const SettingPlaces& places) {
  check_momentum(config, places);
  check_decay_keys(config, places);
  check_adapter_keys(config, places);
}

}  // namespace packtrain
