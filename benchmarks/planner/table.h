// The rows of the planner benchmark as a Markdown table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace packtrain {

std::string table_head();
// `row` has a value for each column of the head.
std::string table_row(const nlohmann::ordered_json& row);

}  // namespace packtrain
