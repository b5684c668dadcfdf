// The lines of a plan file: JSON to values, with an Error for each fault.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "samplers/plan_file/plan_file.h"

namespace packtrain {

// Throws the error of a line.
using RejectLine = std::function<void(const std::string& what, const std::string& advice)>;

nlohmann::json parse_plan_line(std::string_view text, const RejectLine& reject);
PlanFileHeader parse_plan_header_line(const nlohmann::json& json, const RejectLine& reject);
// The number of an {"epoch": NUMBER} line.
std::int64_t parse_plan_epoch_line(const nlohmann::json& json, const RejectLine& reject);
PlanFileStep parse_plan_step_line(const nlohmann::json& json, const PlanFileHeader& header,
                                  const RejectLine& reject);

}  // namespace packtrain
