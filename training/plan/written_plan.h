// Writes the steps of a planner as a plan file (samplers/plan_file/plan_file.h).
#pragma once

#include <cstdint>
#include <string>

#include "framework/data/example_counts.h"
#include "samplers/planner.h"

namespace packtrain {

// The steps of the first `num_epochs` epochs, with the ranks and micro-batches of the planner.
// `lengths`: of the data that it plans. The file is complete or not there. Throws Error(kConfig)
// when a step has a part of an example, which a plan file cannot say.
void write_plan_file(const Planner& planner, const ExampleCounts& lengths, std::int64_t num_epochs,
                     const std::string& path);

}  // namespace packtrain
