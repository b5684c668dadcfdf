#include "training/checkpoint/state_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "training/checkpoint/json_members.h"

namespace packtrain {

using nlohmann::json;

namespace {

json named_json(const std::vector<NamedCheckpoint>& checkpoints) {
  json list = json::array();
  for (const NamedCheckpoint& one : checkpoints) {
    list.push_back({{"folder", one.folder}, {"step", one.step}, {"digest", one.digest}});
  }
  return list;
}

std::vector<NamedCheckpoint> parse_named(const json& list) {
  if (!list.is_array()) throw ManifestFault("'resumed_from' is not a list");
  std::vector<NamedCheckpoint> checkpoints;
  for (const json& one : list) {
    checkpoints.push_back(
        {text_member(one, "folder"), count_member(one, "step"), text_member(one, "digest")});
  }
  return checkpoints;
}

}  // namespace

json state_json(const TrainingState& state) {
  json object = {{"step", state.step},
                 {"epoch", state.epoch},
                 {"seed", state.seed},
                 {"num_ranks", state.num_ranks},
                 {"total_steps", state.total_steps},
                 {"config_hash", state.config_hash},
                 {"data_fingerprint", state.data_fingerprint},
                 {"config_yaml", state.config_yaml},
                 {"model_config", state.model_config}};
  if (!state.plan_header.empty()) object["plan"] = json::parse(state.plan_header);
  if (!state.guard.empty()) object["guard"] = json::parse(state.guard);
  if (state.validation_loss) object["validation_loss"] = *state.validation_loss;
  if (!state.best_losses.empty()) object["best_losses"] = state.best_losses;
  if (!state.validation_set.empty()) object["validation_set"] = state.validation_set;
  if (!state.early_stopping.empty()) {
    object["early_stopping"] = json::parse(state.early_stopping);
  }
  if (state.evaluation_due) object["evaluation_due"] = true;
  if (state.samples_due) object["samples_due"] = true;
  if (state.weights_only) object["weights_only"] = true;
  if (!state.resumed_from.empty()) object["resumed_from"] = named_json(state.resumed_from);
  if (!state.reference_digest.empty()) object["reference_digest"] = state.reference_digest;
  if (!state.adapter.empty()) {
    object["adapter"] = json::parse(state.adapter);
    object["base_digest"] = state.base_digest;
  }
  return object;
}

TrainingState parse_state(const json& object) {
  TrainingState state;
  state.step = count_member(object, "step");
  state.epoch = count_member(object, "epoch");
  state.seed = unsigned_member(object, "seed");
  state.num_ranks = count_member(object, "num_ranks");
  state.total_steps = count_member(object, "total_steps");
  state.config_hash = text_member(object, "config_hash");
  state.data_fingerprint = text_member(object, "data_fingerprint");
  state.config_yaml = text_member(object, "config_yaml");
  state.model_config = text_member(object, "model_config");
  if (object.contains("plan")) state.plan_header = object["plan"].dump();
  if (object.contains("guard")) state.guard = object["guard"].dump();
  if (object.contains("validation_loss")) {
    state.validation_loss = number_from(object["validation_loss"], "validation_loss");
  }
  for (const json& loss : object.value("best_losses", json::array())) {
    state.best_losses.push_back(number_from(loss, "best_losses"));
  }
  const auto read_if_there = [&](const char* key, std::string& text) {
    if (object.contains(key)) text = text_member(object, key);
  };
  read_if_there("validation_set", state.validation_set);
  read_if_there("reference_digest", state.reference_digest);
  if (object.contains("early_stopping")) state.early_stopping = object["early_stopping"].dump();
  state.evaluation_due = flag_member(object, "evaluation_due");
  state.samples_due = flag_member(object, "samples_due");
  state.weights_only = flag_member(object, "weights_only");
  if (object.contains("resumed_from")) state.resumed_from = parse_named(object["resumed_from"]);
  if (object.contains("adapter")) {
    state.adapter = object["adapter"].dump();
    state.base_digest = text_member(object, "base_digest");
  }
  return state;
}

}  // namespace packtrain
