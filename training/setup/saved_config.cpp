#include "training/setup/saved_config.h"

#include "framework/config/resolve.h"
#include "framework/config/setting.h"

namespace packtrain {

Config config_of_run(const TrainingState& state) {
  return resolve_settings(read_settings(state.config_yaml, "the checkpoint's configuration"));
}

}  // namespace packtrain
