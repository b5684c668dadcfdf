// From a configuration to what a plan depends on: one place, for training and for planning alone.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "models/decoder_config.h"
#include "samplers/options.h"

namespace packtrain {

// The cost of an example is the model's training FLOPs for it.
PlanOptions plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks);

// Optimizer steps of the whole run: all epochs, or run.max_steps where these are fewer.
std::int64_t total_steps(const RunSection& run, std::int64_t steps_per_epoch);

}  // namespace packtrain
