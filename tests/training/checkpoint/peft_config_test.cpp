// adapter_config.json of PEFT: what is read, what is refused, what is written.
#include "training/checkpoint/peft_config.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "models/adapters/lora_targets.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/training/checkpoint/small_models.h"

namespace packtrain::test {
namespace {

using nlohmann::json;

// As PEFT 0.21 writes it.
json peft_document() {
  return json::parse(R"({
    "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null,
    "auto_mapping": null, "base_model_name_or_path": "../../etc/passwd", "bias": "none",
    "corda_config": null, "ensure_weight_tying": false, "eva_config": null,
    "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
    "init_lora_weights": true, "layer_replication": null, "layers_pattern": null,
    "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 16, "lora_bias": false,
    "lora_dropout": 0.05, "megatron_config": null, "megatron_core": "megatron.core",
    "modules_to_save": null, "peft_type": "LORA", "peft_version": "0.21.0",
    "qalora_group_size": 16, "r": 4, "rank_pattern": {}, "revision": null,
    "target_modules": ["v_proj", "q_proj"], "target_parameters": null, "task_type": "CAUSAL_LM",
    "trainable_token_indices": null, "use_bdlora": null, "use_dora": false, "use_qalora": false,
    "use_rslora": false})");
}

PeftConfig parsed(const std::string& key, const json& value) {
  json document = peft_document();
  document[key] = value;
  return parse_peft_config(document.dump(), "here/adapter_config.json");
}

void expect_config_error(const std::string& text, const std::string& part) {
  const Error error = error_of([&] { parse_peft_config(text, "here/adapter_config.json"); });
  EXPECT_EQ(error.category(), ErrorCategory::kConfig) << text;
  EXPECT_NE(error.message().find("here/adapter_config.json"), std::string::npos) << error.what();
  EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
}

void expect_value_refused(const std::string& key, const json& value, const std::string& named) {
  json document = peft_document();
  document[key] = value;
  expect_config_error(document.dump(), "'" + named);
}

TEST(PeftConfig, HasTheOptionsOfTheFile) {
  const LoraOptions options = parse_peft_config(peft_document().dump(), "x").options;
  EXPECT_EQ(options.rank, 4);
  EXPECT_EQ(options.alpha, 16);
  EXPECT_EQ(options.dropout, 0.05);
  EXPECT_FALSE(options.use_rslora);
  EXPECT_EQ(options.targets, (std::vector<std::string>{"v_proj", "q_proj"}));
  EXPECT_TRUE(parsed("use_rslora", true).options.use_rslora);
  EXPECT_FALSE(options.use_dora);
  EXPECT_TRUE(parsed("use_dora", true).options.use_dora);
  EXPECT_EQ(parsed("init_lora_weights", "gaussian").options.initialization,
            LoraInitialization::kGaussian);
  EXPECT_EQ(parsed("layers_to_transform", 1).options.layers_to_transform,
            std::vector<std::int64_t>{1});
  EXPECT_EQ(parsed("modules_to_save", {"lm_head"}).options.save,
            std::vector<std::string>{"lm_head"});
}

TEST(PeftConfig, HasPeftsDefaultsForWhatIsNotSet) {
  const auto config = parse_peft_config(R"({"peft_type": "LORA"})", "x");
  EXPECT_EQ(config.options.rank, 8);
  EXPECT_EQ(config.options.alpha, 8);
}

TEST(PeftConfig, KeepsTheOrderOfPatterns) {
  const auto config = parse_peft_config(
      R"({"peft_type": "LORA", "rank_pattern": {"v_proj": 3, "^model.layers.0.mlp.up_proj": 5},
          "alpha_pattern": {"v": 1.5, "a": 2}})",
      "x");
  EXPECT_EQ(config.options.rank_pattern, (std::vector<std::pair<std::string, std::int64_t>>{
                                             {"v_proj", 3}, {"model.layers.0.mlp.up_proj", 5}}));
  EXPECT_EQ(config.options.alpha_pattern,
            (std::vector<std::pair<std::string, double>>{{"v", 1.5}, {"a", 2}}));
}

TEST(PeftConfig, ReadsPatternsOfAnyStart) {
  const auto config = parsed("rank_pattern", {{R"(.*\.gate_up_proj)", 6}});
  EXPECT_EQ(config.options.rank_pattern.front().first, "gate_up_proj");
}

TEST(PeftConfig, HasTheParametersThatAreTargets) {
  EXPECT_EQ(parsed("target_parameters", {"mlp.experts.down_proj"}).target_parameters,
            std::vector<std::string>{"mlp.experts.down_proj"});
  EXPECT_TRUE(parsed("target_parameters", nullptr).target_parameters.empty());
}

TEST(PeftConfig, LeavesTheMeaningOfARegularExpressionToTheTensors) {
  EXPECT_FALSE(parsed("target_modules", "all-linear").has_target_list);
  EXPECT_FALSE(parsed("target_modules", "(.*a)+b").has_target_list);
  EXPECT_FALSE(parsed("exclude_modules", ".*gate").has_target_list);
}

TEST(PeftConfig, NamesEachOptionThatIsNotComputed) {
  const json refused = json::parse(R"({
    "peft_type": "LOHA", "task_type": "SEQ_CLS", "bias": "all",
    "lora_bias": true, "use_qalora": true,
    "trainable_token_indices": [1], "layer_replication": [[0, 1]], "init_lora_weights": "pissa",
    "alora_invocation_tokens": [3], "corda_config": {"rho": 1}, "megatron_config": {"a": 1},
    "an_option_of_tomorrow": 0.5})");
  for (const auto& [key, value] : refused.items()) {
    expect_value_refused(key, value, key);
  }
  expect_value_refused("init_lora_weights", "pissa_niter_4", "init_lora_weights");
}

TEST(PeftConfig, NamesEachWrongValue) {
  for (const json& rank : {json(0), json(-1), json(1.5), json("8"), json(1e30), json(true)}) {
    expect_value_refused("r", rank, "r'");
    expect_value_refused("rank_pattern", {{"q_proj", rank}}, "rank_pattern.q_proj'");
  }
  for (const json& alpha : {json(0), json(-2), json("8"), json::array()}) {
    expect_value_refused("lora_alpha", alpha, "lora_alpha'");
    expect_value_refused("alpha_pattern", {{"q_proj", alpha}}, "alpha_pattern.q_proj'");
  }
  expect_value_refused("lora_dropout", 1, "lora_dropout'");
  expect_value_refused("use_rslora", 1, "use_rslora'");
  expect_value_refused("use_dora", "yes", "use_dora'");
  expect_value_refused("target_modules", {{"q_proj", 1}}, "target_modules'");
  expect_value_refused("target_modules", {"q_proj", 1}, "target_modules'");
  expect_value_refused("modules_to_save", {".*"}, "modules_to_save'");
  expect_value_refused("layers_to_transform", {0, -1}, "layers_to_transform'");
  expect_value_refused("rank_pattern", {{".*q_proj", 3}}, "rank_pattern..*q_proj'");
  expect_value_refused("alpha_pattern", {{"(q|k)_proj", 3}}, "alpha_pattern.(q|k)_proj'");
}

TEST(PeftConfig, OfDamagedTextIsAnErrorThatNamesTheFile) {
  expect_config_error("", "");
  expect_config_error("[]", "no JSON object");
  expect_config_error(R"({"peft_type": "LORA", "r": 4, "r": 8})", "r");
  expect_config_error(R"({"peft_type": "LORA", "lora_alpha": NaN})", "");
  expect_config_error(R"({"peft_type": "LORA", "lora_alpha": 1e999})", "");
  expect_config_error(std::string(100'000, '['), "");
  expect_config_error("{\"peft_type\": \"LORA\", \"\xff\": 1}", "");
  expect_config_error(R"({"r": 8})", "peft_type");
}

// The targets that the written text names, by the reader.
AdapterTargets read_again(const DecoderConfig& base, const LoraOptions& options) {
  DecoderConfig config = base;
  config.adapter = std::make_shared<const AdapterTargets>(find_lora_targets(base, options));
  const auto read = parse_peft_config(peft_config_text(config, options, "base"), "x");
  return find_lora_targets(base, read.options);
}

TEST(PeftConfigText, NamesTheModulesRanksAndScalesThatItIsWrittenOf) {
  const DecoderConfig base = small_llama();
  LoraOptions all;
  all.rank = 4;
  all.alpha = 7;
  LoraOptions patterns = all;
  patterns.rank_pattern = {{"layers.1.*q_proj", 3}, {"down_proj", 5}};
  patterns.rank_pattern.front().first = "*layers.1.*q_proj";
  patterns.alpha_pattern = {{"v_proj", 0.3}, {"self_attn.o_proj", 1e-3}};
  patterns.use_rslora = true;
  LoraOptions rows = all;
  rows.use_dora = true;
  LoraOptions some = all;
  some.targets = {"attention.qkv", "*layers.1.mlp.*"};
  some.exclude = {"k_proj"};
  LoraOptions layer = all;
  layer.layers_to_transform = {1};
  layer.save = {"lm_head", "model.norm"};
  for (const LoraOptions& options : {all, patterns, rows, some, layer}) {
    const AdapterTargets wanted = find_lora_targets(base, options);
    const AdapterTargets got = read_again(base, options);
    EXPECT_EQ(got.weights, wanted.weights);
    EXPECT_EQ(got.trained, wanted.trained);
    EXPECT_EQ(got.use_dora, wanted.use_dora);
  }
}

json written(const LoraOptions& options) {
  DecoderConfig config = small_llama();
  config.adapter = std::make_shared<const AdapterTargets>(find_lora_targets(config, options));
  return json::parse(peft_config_text(config, options, "the/base"));
}

TEST(PeftConfigText, HasLastNamesWhereTheyNameTheTargetsAlone) {
  LoraOptions options;
  options.rank = 2;
  options.targets = {"q_proj", "up_proj"};
  json document = written(options);
  EXPECT_EQ(document["target_modules"], json({"q_proj", "up_proj"}));
  EXPECT_EQ(document["layers_to_transform"], nullptr);
  EXPECT_EQ(document["base_model_name_or_path"], "the/base");
  options.layers_to_transform = {1};
  document = written(options);
  EXPECT_EQ(document["target_modules"], json({"q_proj", "up_proj"}));
  EXPECT_EQ(document["layers_to_transform"], json({1}));
  options.exclude = {"model.layers.1.mlp.up_proj"};
  options.layers_to_transform.clear();
  document = written(options);
  EXPECT_EQ(document["target_modules"],
            json({"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj",
                  "model.layers.1.self_attn.q_proj"}));
}

}  // namespace
}  // namespace packtrain::test
