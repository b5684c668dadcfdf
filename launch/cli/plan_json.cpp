#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/cli/plan_report.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

Json assignment(const StepPlan& plan, const PlanReport& report) {
  Json ranks = Json::array();
  Json origins = Json::object();
  Json rows = Json::array();
  for (const std::vector<MicroBatch>& micro_batches : plan.ranks) {
    Json rank = Json::array();
    Json rows_of_rank = Json::array();
    for (const MicroBatch& pieces : micro_batches) {
      Json micro_batch = Json::array();
      for (const Piece& piece : pieces) {
        micro_batch.push_back(Json::array({piece.example, piece.begin, piece.length}));
        const ShownExample& shown = report.shown_examples.at(piece.example);
        origins[std::to_string(piece.example)] = Json::array({shown.store, shown.example});
      }
      rank.push_back(std::move(micro_batch));
      rows_of_rank.push_back(rows_in(pieces, report.counting));
    }
    ranks.push_back(std::move(rank));
    rows.push_back(std::move(rows_of_rank));
  }
  return {{"step", plan.step},
          {"ranks", std::move(ranks)},
          {"rows", std::move(rows)},
          {"origins", std::move(origins)}};
}

Json lengths_to_json(const std::vector<LengthBin>& bins) {
  Json json = Json::array();
  for (const LengthBin& bin : bins) {
    json.push_back({{"min_tokens", bin.min_tokens},
                    {"max_tokens", bin.max_tokens},
                    {"num_examples", bin.num_examples},
                    {"num_tokens", bin.num_tokens}});
  }
  return json;
}

Json stores_to_json(const PlanReport& report) {
  const auto known = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  const auto part_of = [](std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
  };
  Json json = Json::array();
  for (const StoreShare& store : report.stores) {
    json.push_back({{"path", store.use.folder},
                    {"num_examples", store.num_examples},
                    {"num_tokens", store.num_tokens},
                    {"share", part_of(store.num_tokens, report.survey.num_tokens())},
                    {"wanted_share", known(store.wanted_share)},
                    {"probability", part_of(store.num_examples, report.survey.num_examples())},
                    {"wanted_probability", known(store.wanted_probability)},
                    {"mean_repeats", store.mean_repeats()}});
  }
  return json;
}

Json adapters_to_json(const PlanReport& report) {
  Json json = Json::array();
  for (const PlannedAdapter& adapter : report.adapters) {
    json.push_back({{"name", adapter.name},
                    {"num_examples", adapter.num_examples},
                    {"num_steps", adapter.num_steps}});
  }
  return json;
}

std::int64_t shared_examples(const std::vector<ValidationOverlap>& overlaps) {
  std::int64_t num_shared = 0;
  for (const ValidationOverlap& overlap : overlaps) num_shared += overlap.num_shared;
  return num_shared;
}

Json warnings_to_json(const std::vector<PlanWarning>& warnings) {
  Json json = Json::array();
  for (const PlanWarning& warning : warnings) {
    json.push_back({{"name", warning.name}, {"what", warning.what}, {"advice", warning.advice}});
  }
  return json;
}

Json bytes_by_purpose(const MemoryPlan& plan) {
  Json json = Json::object();
  for (const auto* entries : {&plan.allocated, &plan.outside}) {
    for (const MemoryEntry& entry : *entries) json[entry.name] = entry.bytes;
  }
  return json;
}

Json bytes_by_purpose(const std::vector<MemoryEntry>& entries) {
  Json json = Json::object();
  for (const MemoryEntry& entry : entries) json[entry.name] = entry.bytes;
  return json;
}

Json saved_bytes(const std::vector<SavedActivation>& values) {
  Json json = Json::object();
  for (const SavedActivation& value : values) json[value.name] = value.bytes;
  return json;
}

Json memory_keys(const MemoryForecast& memory) {
  const auto known = [](std::int64_t bytes) { return bytes > 0 ? Json(bytes) : Json(); };
  return {
      {"num_parameters", memory.num_parameters},
      {"num_trained_parameters", memory.num_trained},
      {"num_ranks", memory.num_ranks},
      {"num_hosts", memory.hosts.num_hosts()},
      {"ranks_per_host", memory.hosts.ranks_per_host},
      {"shard_size", memory.ranks.shard_size},
      {"max_tokens_per_micro_batch", memory.budget.tokens},
      {"recompute", memory.recompute},
      {"gather_slots", memory.gather_slots},
      {"accumulate", memory.accumulate},
      {"memory_limit_bytes", memory.budget.limit ? Json(memory.budget.limit->bytes) : Json()},
      {"gpu_memory_bytes", known(memory.gpu_bytes)},
      {"predicted_memory_bytes", memory.plan.total()},
      {"predicted_allocated_bytes",
       memory.plan.allocated_bytes()},  // the part that the run allocates
      {"memory_bytes_by_purpose", bytes_by_purpose(memory.plan)},
      {"memory_is_most_in", memory.plan.moment},
      {"saved_bytes_per_layer", saved_bytes(memory.plan.layer_values)},
      {"predicted_host_bytes", memory.host.host_bytes()},
      {"available_host_bytes", known(memory.host.available_bytes)},
      {"predicted_state_copy_s", memory.host.state_copy_s},
      {"host_bytes_of_a_rank", bytes_by_purpose(memory.host.of_rank)},
      {"host_bytes_shared", bytes_by_purpose(memory.host.of_host)},
      {"checkpoint_bytes", memory.checkpoints.bytes},
      {"max_checkpoints", memory.checkpoints.max_at_once},
  };
}

}  // namespace

std::string memory_to_json(const MemoryForecast& memory) {
  return memory_keys(memory).dump() + "\n";
}

std::string plan_to_json(const PlanReport& report, bool with_steps) {
  const PlanSummary& survey = report.survey;
  const SelectionCounts& losses = report.losses;
  Json json = {
      {"strategy", traits_of(report.strategy).name},
      {"num_steps", report.num_steps},
      {"num_examples", survey.num_examples()},
      {"num_tokens", survey.num_tokens()},
      {"num_loss_tokens", survey.num_loss_tokens()},
      {"num_epochs", report.training.num_epochs},
      {"tokens_per_parameter", report.training.per_parameter()},
      {"num_groups", survey.num_groups()},
      {"max_rows_in_group", survey.max_rows_in_group()},
      {"saved_row_fraction", survey.saved_fraction()},
      {"dropped_examples", left_out(losses)},
      {"cut_to_nothing_examples", losses.truncated_to_empty_examples},
      {"truncated_examples", losses.truncated_examples},
      {"split_examples", survey.split_examples()},
      {"padding_fraction", survey.padding_fraction()},
      {"fill", survey.fill()},
      {"token_imbalance", survey.token_imbalance()},
      {"cost_utilization", survey.cost_utilization()},
      {"cost_bound", survey.cost_bound()},
      {"num_micro_batches", survey.num_micro_batches()},
      {"max_tokens_in_micro_batch", survey.max_tokens_in_micro_batch()},
      {"planning_time_s", report.planning_time_s},
      {"predicted_step_time_s", report.step_time_s ? Json(*report.step_time_s) : Json()},
      {"stores", stores_to_json(report)},
      {"adapters", adapters_to_json(report)},
      {"shared_validation_examples", shared_examples(report.overlaps)},
      {"lengths", lengths_to_json(report.lengths)},
      {"warnings", warnings_to_json(report.warnings)},
  };
  json.update(memory_keys(report.memory));
  if (with_steps) {
    json["steps"] = Json::array();
    for (const StepPlan& plan : report.steps) json["steps"].push_back(assignment(plan, report));
  }
  return json.dump() + "\n";
}

}  // namespace packtrain
