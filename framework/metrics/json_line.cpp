#include "framework/metrics/json_line.h"

#include <nlohmann/json.hpp>
#include <variant>

#include "framework/metrics/fields.h"

namespace packtrain {

std::string step_json_line(const StepRecord& record) {
  nlohmann::ordered_json line;
  for (const MetricField& field : step_fields()) {
    std::visit([&](auto member) { line[field.key] = record.*member; }, field.member);
  }
  return line.dump();
}

std::string evaluation_json_line(const EvaluationRecord& record) {
  const nlohmann::ordered_json line = {
      {"step", record.step},
      {"validation_loss", record.loss},
      {"validation_perplexity", record.perplexity},
      {"validation_num_examples", record.num_examples},
      {"validation_num_tokens", record.num_tokens},
      {"validation_num_loss_tokens", record.num_loss_tokens},
  };
  return line.dump();
}

}  // namespace packtrain
