// The keys of each section: parts of the table of schema.h, in several files for their length.
#pragma once

#include <vector>

#include "framework/config/config.h"
#include "framework/config/field.h"

namespace packtrain {

// schema_training.cpp: what is trained and how
std::vector<Field> fields_of(ModelSection& section);
std::vector<Field> fields_of(BatchSection& section);
std::vector<Field> fields_of(OptimizerSection& section);
std::vector<Field> fields_of(ScheduleSection& section);
std::vector<Field> fields_of(PrecisionSection& section);

// schema_machines.cpp: on what, and what watches over it
std::vector<Field> fields_of(ParallelSection& section);
std::vector<Field> fields_of(GuardSection& section);
std::vector<Field> fields_of(DebugSection& section);
std::vector<Field> fields_of(FaultSection& section);

}  // namespace packtrain
