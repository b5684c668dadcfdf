#include "framework/metrics/json_line.h"

#include <nlohmann/json.hpp>
#include <variant>

#include "framework/metrics/fields.h"

namespace packtrain {
namespace {

void add_sources(nlohmann::ordered_json& line, const char* key,
                 const std::vector<SourceLoss>& losses) {
  for (const SourceLoss& loss : losses) line[key][loss.source] = loss.loss;
}

void add_objective(nlohmann::ordered_json& line, const std::string& prefix, std::int64_t num_groups,
                   const std::vector<ObjectiveStatistic>& statistics) {
  if (num_groups > 0) line[prefix + "num_groups"] = num_groups;
  for (const ObjectiveStatistic& one : statistics) {
    line[prefix + "objective"][one.name] = one.value;
  }
}

void add_experts(nlohmann::ordered_json& line, const ExpertLoad& load) {
  if (load.auxiliary_loss) line["auxiliary_loss"] = *load.auxiliary_loss;
  line["expert_load_max"] = load.max;
  line["expert_load_min"] = load.min;
  line["expert_tokens"] = load.tokens;
}

void add_hessian(nlohmann::ordered_json& line, const HessianRecord& hessian) {
  line["hessian_grad_norm"] = hessian.grad_norm;
  line["hessian_num_skipped"] = hessian.num_skipped;
  if (hessian.unclipped_fraction) line["unclipped_fraction"] = *hessian.unclipped_fraction;
}

void add_adapters(nlohmann::ordered_json& line, const std::vector<AdapterRecord>& adapters) {
  for (const AdapterRecord& one : adapters) {
    line["adapters"][one.name] = {{"loss", one.loss},
                                  {"grad_norm", one.grad_norm},
                                  {"learning_rate", one.learning_rate},
                                  {"num_tokens", one.num_tokens},
                                  {"num_loss_tokens", one.num_loss_tokens},
                                  {"num_skipped_steps", one.num_skipped_steps}};
  }
}

}  // namespace

std::string step_json_line(const StepRecord& record) {
  nlohmann::ordered_json line;
  for (const MetricField& field : step_fields()) {
    std::visit([&](auto member) { line[field.key] = record.*member; }, field.member);
  }
  if (!record.slowest_phase.empty()) line["slowest_phase"] = record.slowest_phase;
  add_sources(line, "loss_by_source", record.loss_by_source);
  add_objective(line, "", record.num_groups, record.objective);
  if (record.experts) add_experts(line, *record.experts);
  if (record.hessian) add_hessian(line, *record.hessian);
  add_adapters(line, record.adapters);
  return line.dump();
}

std::string evaluation_json_line(const EvaluationRecord& record) {
  nlohmann::ordered_json line = {
      {"step", record.step},
      {"validation_loss", record.loss},
  };
  if (record.perplexity) line["validation_perplexity"] = *record.perplexity;
  line["validation_num_examples"] = record.num_examples;
  line["validation_num_tokens"] = record.num_tokens;
  line["validation_num_loss_tokens"] = record.num_loss_tokens;
  add_sources(line, "validation_loss_by_source", record.loss_by_source);
  add_objective(line, "validation_", record.num_groups, record.objective);
  if (!record.set.empty()) line["validation_set"] = record.set;
  for (const EvaluationRecord& one : record.all_sets) {
    nlohmann::ordered_json& set = line["validation_sets"][one.set];
    set = {{"loss", one.loss}};
    if (one.perplexity) set["perplexity"] = *one.perplexity;
    set["num_examples"] = one.num_examples;
    set["num_tokens"] = one.num_tokens;
    set["num_loss_tokens"] = one.num_loss_tokens;
    add_sources(set, "loss_by_source", one.loss_by_source);
    add_objective(set, "", one.num_groups, one.objective);
  }
  return line.dump();
}

std::string command_json_line(const CommandRecord& record) {
  nlohmann::ordered_json line = {{"step", record.step}};
  for (const auto& [name, value] : record.values) line["evaluate_command"][name] = value;
  return line.dump();
}

}  // namespace packtrain
