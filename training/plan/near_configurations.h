// Configurations near one that does not fit into memory, and that do. Each one is planned, none is
// guessed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "training/plan/memory_fit.h"

namespace packtrain {

struct NearConfiguration {
  std::string settings;    // "optimizer.moments=bf16", or "one copy of the state on 4 ranks"
  std::int64_t bytes = 0;  // planned memory of a rank with the least that memory.fit may choose
  bool changes_numbers = false;  // losses or optimizer steps differ from those of `input`
};

// At most `count`. Single changes before pairs, and those that change no number before others. More
// ranks are tried up to 64 times today's.
std::vector<NearConfiguration> near_configurations(const FitInput& input, std::size_t count = 3);

// One line for each: "settings takes X GiB", with "(changes numbers)" where it does.
std::vector<std::string> near_configuration_lines(const FitInput& input);

// The error of a plan that cannot fit: what it needs at least, and near configurations. Category
// kDevice.
Error no_fit(const FitInput& input);

}  // namespace packtrain
