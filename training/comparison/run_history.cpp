#include "training/comparison/run_history.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <variant>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/metrics/fields.h"

namespace packtrain {
namespace {

// The file has null for non-finite numbers.
void read(const nlohmann::json& value, double& number) {
  number = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}
void read(const nlohmann::json& value, std::int64_t& number) {
  value.get_to(number);
}

StepRecord parse_step(const nlohmann::json& line) {
  StepRecord record;
  for (const MetricField& field : step_fields()) {
    std::visit([&](auto member) { read(line.at(field.key), record.*member); }, field.member);
  }
  return record;
}

EvaluationRecord parse_evaluation(const nlohmann::json& line) {
  EvaluationRecord record;
  line.at("step").get_to(record.step);
  read(line.at("validation_loss"), record.loss);
  return record;
}

void add_line(std::string_view line, RunHistory& history) {
  const auto object = nlohmann::json::parse(line);
  if (object.contains("validation_loss")) {
    history.evaluations.push_back(parse_evaluation(object));
  } else if (!object.contains("evaluate_command")) {
    history.steps.push_back(parse_step(object));
  }
}

}  // namespace

RunHistory parse_history(std::string_view text, const std::string& path) {
  RunHistory history;
  std::int64_t line_number = 0;
  const auto reject = [&](const std::string& what) {
    throw Error(ErrorCategory::kData, fmt::format("{}:{}: {}", path, line_number, what),
                "Remove the folder of this run: it is trained again.");
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    ++line_number;
    try {
      add_line(text.substr(0, end), history);
    } catch (const nlohmann::json::exception& failure) {
      reject(fmt::format("is no line of metrics: {}", failure.what()));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto num_steps = static_cast<std::int64_t>(history.steps.size());
    if (num_steps > 0 && history.steps.back().step != num_steps) {
      reject(fmt::format("got step {}, wanted {}", history.steps.back().step, num_steps));
    }
  }
  return history;
}

RunHistory read_history(const std::string& run_folder) {
  const std::string path = run_folder + "/metrics.jsonl";
  return parse_history(read_text(path, ErrorCategory::kData), path);
}

}  // namespace packtrain
