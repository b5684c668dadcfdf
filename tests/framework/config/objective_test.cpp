// Tests conflicts of the section objective, and what an objective needs.
#include <gtest/gtest.h>

#include "framework/config/objective_settings.h"
#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

std::string settings(const std::string& objective, const std::string& rest = "") {
  return "objective: {" + objective + "}\n" + rest;
}

void expect_parts(const std::string& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nwanted: " << part;
  }
}

const char* const kAdapter = "adapter: {kind: lora}";

TEST(ConfigObjective, AKeyThatTheKindDoesNotReadIsNamedWithItsPlaceAndTheKindsThatDo) {
  expect_parts(load_error(settings("kind: kto, margin_scale: 1", kAdapter)),
               {"objective.margin_scale is 1 (config.yaml:1:38)",
                "objective.kind is kto (config.yaml:1:19), which does not read it",
                "set objective.kind to dpo"});
  expect_parts(load_error(settings("beta: 0.2")),
               {"objective.beta is 0.2", "objective.kind is next_token (default)",
                "dpo or ipo or orpo or simpo or cpo or kto or policy"});
}

TEST(ConfigObjective, EveryKeyHasKindsThatRefuseIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"kind: ipo, label_smoothing: 0.1", "label_smoothing"},
      {"kind: ipo, length_normalize: true", "length_normalize"},
      {"kind: dpo, target_margin: 1", "target_margin"},
      {"kind: simpo, margin_scale: 1", "margin_scale"},
      {"kind: kto, next_token_weight: 1", "next_token_weight"},
      {"kind: dpo, desirable_weight: 2", "desirable_weight"},
      {"kind: dpo, undesirable_weight: 2", "undesirable_weight"},
      {"kind: orpo, reference: base", "reference"},
      {"kind: simpo, reference_path: a", "reference_path"},
      {"kind: dpo, policy_loss: cispo", "policy_loss"},
      {"kind: dpo, ratio: example", "ratio"},
      {"kind: dpo, clip_low: 0.1", "clip_low"},
      {"kind: kto, clip_high: 0.3", "clip_high"}};
  for (const auto& [objective, key] : cases) {
    expect_parts(load_error(settings(objective, kAdapter)),
                 {std::string("objective.") + key + " is ", "does not read it"});
  }
}

TEST(ConfigObjective, AKeyWithItsDefaultFitsEveryKind) {
  EXPECT_NO_THROW(load(settings("kind: kto, margin_scale: 0, clip_low: 0.2", kAdapter)));
}

TEST(ConfigObjective, TheDumpOfEachKindLoads) {
  for (const char* kind : {"next_token", "dpo", "ipo", "orpo", "simpo", "cpo", "kto", "policy"}) {
    const Config config = load(settings(std::string("kind: ") + kind, kAdapter));
    EXPECT_EQ(dump_config(load(dump_config(config))), dump_config(config)) << kind;
  }
}

TEST(ConfigObjective, TheReferenceIsTheBaseUnderAnAdapterAndElseAFile) {
  const auto source = [](const std::string& objective, const std::string& rest = "") {
    return reference_source(load(settings(objective, rest)));
  };
  EXPECT_EQ(source("kind: dpo"), ReferenceSource::kLogProbs);
  EXPECT_EQ(source("kind: dpo", kAdapter), ReferenceSource::kBase);
  EXPECT_EQ(source("kind: ipo, reference: log_probs", kAdapter), ReferenceSource::kLogProbs);
  EXPECT_EQ(source("kind: dpo, reference: model, reference_path: a"), ReferenceSource::kModel);
  EXPECT_EQ(source("kind: orpo"), std::nullopt);
  EXPECT_EQ(source("kind: policy"), std::nullopt);
  EXPECT_EQ(source("kind: policy, beta: 0.1"), ReferenceSource::kLogProbs);
}

TEST(ConfigObjective, AReferenceThatCannotBeComputedIsRefused) {
  expect_parts(load_error(settings("kind: dpo, reference: base")),
               {"objective.reference is base (config.yaml:1:35)", "adapter.kind is none"});
  expect_parts(load_error(settings("kind: dpo, reference: model")),
               {"objective.reference_path is not given", "model.path"});
  expect_parts(load_error(settings("kind: dpo, reference_path: a", kAdapter)),
               {"objective.reference_path is a", "Set objective.reference: model"});
  expect_parts(load_error(settings("kind: dpo, reference_path: a")),
               {"objective.reference_path is a", "wanted 16 hexadecimal digits"});
  EXPECT_NO_THROW(load(settings("kind: dpo, reference_path: 0123456789abcdef")));
  expect_parts(load_error(settings("kind: policy, reference: log_probs")),
               {"objective.beta is 0", "the loss has no reference"});
}

TEST(ConfigObjective, ABetaOfZeroIsRefusedWhereTheLossWouldBeAConstant) {
  for (const char* kind : {"dpo", "ipo", "simpo", "cpo", "kto"}) {
    expect_parts(load_error(settings(std::string("beta: 0, kind: ") + kind, kAdapter)),
                 {"objective.beta is 0 (config.yaml:1:19)", "objective.kind is ",
                  "Set objective.beta above 0"});
  }
  for (const char* kind : {"orpo", "policy"}) {
    EXPECT_NO_THROW(load(settings(std::string("beta: 0, kind: ") + kind, kAdapter)));
  }
}

TEST(ConfigObjective, TheDivergenceOfKtoNeedsAModelAndTwoExamples) {
  expect_parts(load_error(settings("kind: kto")),
               {"objective.kind is kto", "which is log_probs without an adapter",
                "objective.reference: model"});
  expect_parts(load_error(settings("kind: kto",
                                   "adapter: {kind: lora}\n"
                                   "batch: {global_batch_size: 1}")),
               {"batch.global_batch_size is 1", "two examples a step"});
}

TEST(ConfigObjective, SettingsThatCutExamplesAreRefused) {
  expect_parts(load_error(settings("kind: dpo", "data: {too_long: truncate}")),
               {"data.too_long is truncate", "objective.kind is dpo", "drops the whole group"});
  expect_parts(load_error(settings("kind: dpo", "batch: {strategy: fixed_length}")),
               {"batch.strategy is fixed_length", "cut examples"});
}

TEST(ConfigObjective, SeveralAdaptersAreRefused) {
  expect_parts(load_error(settings("kind: orpo",
                                   "adapters: [{name: a, train: s}, "
                                   "{name: b, train: t}]")),
               {"adapters (config.yaml", "objective.kind is orpo", "next tokens alone"});
}

}  // namespace
}  // namespace packtrain
