// The keys of each section. schema.h joins them into one table.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/field.h"

namespace packtrain {

inline constexpr std::int64_t kMaxTokens = 0x7fffffff;  // positions and boundaries are int32

// schema_adapter.cpp
std::vector<Field> fields_of(AdapterSection& section);

// schema_objective.cpp
std::vector<Field> fields_of(ObjectiveSection& section);

// schema_training.cpp: model, batch, optimizer, schedule, precision
std::vector<Field> fields_of(ModelSection& section);
std::vector<Field> fields_of(BatchSection& section);
std::vector<Field> fields_of(OptimizerSection& section);
std::vector<Field> fields_of(ScheduleSection& section);
std::vector<Field> fields_of(PrecisionSection& section);

// schema_machines.cpp: parallel, guard, debug, fault
std::vector<Field> fields_of(ParallelSection& section);
std::vector<Field> fields_of(GuardSection& section);
std::vector<Field> fields_of(DebugSection& section);
std::vector<Field> fields_of(FaultSection& section);

}  // namespace packtrain
