// The objective that a configuration names.
#pragma once

#include <memory>

#include "framework/config/objective_section.h"
#include "models/objectives/objective.h"

namespace packtrain {

std::shared_ptr<const Objective> make_objective(const ObjectiveSection& section);

}  // namespace packtrain
