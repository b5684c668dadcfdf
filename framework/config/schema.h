// The table of all keys. All code that reads, writes, checks or lists keys uses it.
#pragma once

#include <vector>

#include "framework/config/config.h"
#include "framework/config/field.h"

namespace packtrain {

// All keys in the order of the sections of Config. `config` must outlive the fields.
std::vector<Field> fields_of(Config& config);

}  // namespace packtrain
