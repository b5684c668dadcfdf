// GLM-4-0414 (model_type "glm4"): GLM with a norm after each branch too.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family glm4_family();

}  // namespace packtrain
