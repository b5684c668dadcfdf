// The table of all keys. Reading, writing, checking and naming keys go through it and nothing else.
#pragma once

#include <vector>

#include "framework/config/config.h"
#include "framework/config/field.h"

namespace packtrain {

// Every key, section by section in the order of Config, tied to `config`, which must outlive it.
std::vector<Field> fields_of(Config& config);

}  // namespace packtrain
