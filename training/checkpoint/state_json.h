// TrainingState as the member `state` of manifest.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "training/checkpoint/training_state.h"

namespace packtrain {

nlohmann::json state_json(const TrainingState& state);
// Throws ManifestFault (json_members.h).
TrainingState parse_state(const nlohmann::json& object);

}  // namespace packtrain
