// Tests which settings a resumed run may change.
#include "training/saving/resumed_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "training/plan/plan_header.h"
#include "training/plan/plan_source.h"

namespace packtrain {
namespace {

// Decide numbers, and are compared by what they stand for: the model, the run's length, how many
// examples of each store an epoch has.
const std::set<std::string> kComparedDifferently = {
    "model.path",    "model.config",       "model.ignore_keys", "run.num_epochs",
    "run.max_steps", "data.mixture_until", "batch.plan_file"};  // by its contents

// Whole sections, and keys of others, that decide no number of a step.
const std::set<std::string> kFreeSections = {"parallel", "checkpoint", "guard", "metrics",
                                             "memory",   "samples",    "debug", "fault"};
const std::set<std::string> kFree = {"model.prefix",  // of names in files
                                     "adapter.path",  // first values only
                                     "adapter.init",
                                     "data.validation",
                                     "data.prepare_options",  // the store's contents count
                                     "data.prepared_path",
                                     "batch.micro_batch_size",
                                     "batch.cost",
                                     "precision.deterministic",
                                     "run.output",
                                     "run.evaluate_steps",
                                     "run.evaluate_at_start",
                                     "run.early_stopping_patience",
                                     "run.early_stopping_min_delta",
                                     "run.cuda_graphs",
                                     "run.trace_steps",
                                     "run.trace_first",
                                     "run.evaluate_command",
                                     "run.command_timeout_s"};

std::set<std::string> refused_keys() {
  std::set<std::string> keys(keys_fixed_on_resume().begin(), keys_fixed_on_resume().end());
  Config config;
  config.batch.strategy = Strategy::kMultipack;  // whose plan depends on most
  for (const auto& [key, value] :
       plan_settings(config, plan_options(config, DecoderConfig{}, 2, 1024), "f00d")) {
    keys.insert(key);
  }
  return keys;
}

// A new key must be in one of these lists. Without it, a run would resume silently although a key
// that decides numbers has changed.
TEST(ResumedSettings, EveryKeyIsRefusedComparedOrFree) {
  const std::set<std::string> refused = refused_keys();
  for (const std::string& key : config_keys()) {
    const std::string section = key.substr(0, key.find('.'));
    const bool is_free = kFree.contains(key) || kFreeSections.contains(section);
    const int places = static_cast<int>(refused.contains(key)) +
                       static_cast<int>(kComparedDifferently.contains(key)) +
                       static_cast<int>(is_free);
    EXPECT_EQ(places, 1) << key << ": kDecisiveKeys, plan_settings() or this test's kFree";
  }
}

// Returns the resume point of a checkpoint of this configuration, without the lines of `left_out`.
ResumePoint saved_without(const Config& config, const std::vector<std::string>& left_out) {
  ResumePoint resumed;
  resumed.folder = "step-7";
  resumed.step = 7;
  resumed.total_steps = 20;
  std::istringstream lines(dump_config(config));
  for (std::string line; std::getline(lines, line);) {
    const auto is_of = [&](const std::string& key) { return line.starts_with("  " + key + ":"); };
    if (std::ranges::none_of(left_out, is_of)) resumed.config_yaml += line + "\n";
  }
  return resumed;
}

std::vector<std::string> changed_keys(const ResumePoint& resumed, const Config& config,
                                      std::int64_t total_steps = 20) {
  std::vector<std::string> keys;
  for (const auto& change :
       changed_settings(resumed, {config, resumed.header.settings, "", total_steps})) {
    keys.push_back(change.key);
  }
  return keys;
}

using Keys = std::vector<std::string>;

TEST(ResumedSettings, AKeyThatTheCheckpointLacksHadItsDefault) {
  Config config;
  const ResumePoint older = saved_without(config, {"moments", "decay_shape", "max_grad_norm"});
  EXPECT_EQ(changed_keys(older, config), Keys{});
  config.optimizer.moments = Moments::kBFloat16;
  config.optimizer.max_grad_norm = 2;
  EXPECT_EQ(changed_keys(older, config), (Keys{"optimizer.max_grad_norm", "optimizer.moments"}));
}

TEST(ResumedSettings, KeysOfAnotherScheduleAreFree) {
  Config config;
  const ResumePoint resumed = saved_without(config, {});
  config.schedule.decay_ratio = 0.5;
  EXPECT_EQ(changed_keys(resumed, config), Keys{});
  config.schedule.name = ScheduleKind::kWarmupStableDecay;
  EXPECT_EQ(changed_keys(resumed, config), (Keys{"schedule.name", "schedule.decay_ratio"}));
}

TEST(ResumedSettings, AStableRunMayBecomeLongerUntilItsRateFalls) {
  Config config;
  config.schedule.name = ScheduleKind::kWarmupStableDecay;
  config.schedule.warmup_steps = 2;
  config.schedule.decay_steps = 5;
  config.run.max_steps = 20;
  ResumePoint resumed = saved_without(config, {});
  config.run.max_steps = 40;
  EXPECT_EQ(changed_keys(resumed, config, 40), Keys{});
  resumed.step = 15;
  EXPECT_EQ(changed_keys(resumed, config, 40), Keys{});
  resumed.step = 16;
  EXPECT_EQ(changed_keys(resumed, config, 40), Keys{"run.max_steps"});
}

TEST(ResumedSettings, WhatTheCheckpointSaysIsDamagedAsTheCheckpointIs) {
  const Config config;
  ResumePoint damaged_yaml = saved_without(config, {});
  damaged_yaml.config_yaml = "data: {train: [";
  ResumePoint damaged_weight = saved_without(config, {"train"});
  damaged_weight.config_yaml += "data: {train: [{path: a, loss_weight: [x]}]}\n";
  ResumePoint damaged_model = saved_without(config, {});
  damaged_model.model_config = "[1]";
  for (const ResumePoint& damaged : {damaged_yaml, damaged_model}) {
    try {
      changed_keys(damaged, config);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    }
  }
  EXPECT_THROW(changed_keys(damaged_weight, config), Error);
}

TEST(ResumedSettings, AModelPathWhoseWeightsAreNotReadIsNamed) {
  Config config;
  config.model.path = "models/a";
  const ResumePoint resumed = saved_without(config, {});
  EXPECT_EQ(unread_model_path(resumed, config), "");
  config.model.path = "models/b";
  const std::string warning = unread_model_path(resumed, config);
  EXPECT_NE(warning.find("model.path: \"models/a\", this run has \"models/b\""), std::string::npos)
      << warning;
  config.adapter.kind = AdapterKind::kLora;
  EXPECT_EQ(unread_model_path(resumed, config), "");
}

Error refusal(const ResumePoint& resumed, const Config& config, const Keys& allowed) {
  const auto changes = changed_settings(resumed, {config, resumed.header.settings, "", 20});
  return test::error_of([&] { check_changes(changes, allowed, resumed.folder); });
}

TEST(ResumedSettings, AnotherOptimizerIsNotSaidToBeAllowable) {
  Config config;
  const ResumePoint resumed = saved_without(config, {});
  config.optimizer.name = "lion";
  for (const Keys& allowed : {Keys{}, Keys{"optimizer.name"}}) {
    const Error error = refusal(resumed, config, allowed);
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    EXPECT_EQ(error.advice(),
              "Restore optimizer.name, because the saved state cannot be converted. Or start a "
              "new run from the weights: model.path: step-7 (of an adapter: adapter.path) and "
              "another run.output.");
  }
  config.optimizer.weight_decay = 0;
  EXPECT_TRUE(
      refusal(resumed, config, {}).advice().ends_with("allow_changed=[optimizer.weight_decay]"));
}

TEST(ResumedSettings, ShapesOfAnAdapterAreNotSaidToBeAllowable) {
  Config config;
  config.adapter.kind = AdapterKind::kLora;
  const ResumePoint resumed = saved_without(config, {});
  config.adapter.rank = 4;
  config.adapter.use_dora = true;
  config.adapter.dropout = 0.25;
  const std::string advice =
      refusal(resumed, config, {"adapter.rank", "adapter.use_dora"}).advice();
  EXPECT_TRUE(advice.starts_with("Restore adapter.rank and adapter.use_dora, ")) << advice;
  EXPECT_TRUE(advice.ends_with("checkpoint.allow_changed=[adapter.dropout]")) << advice;
}

TEST(ResumedSettings, MomentsAreAllowableWhereTheyCanBeConverted) {
  Config config;
  const ResumePoint resumed = saved_without(config, {});
  config.optimizer.moments = Moments::kBFloat16;
  EXPECT_NO_THROW(check_changes(changed_settings(resumed, {config, {}, "", 20}),
                                {"optimizer.moments"}, resumed.folder));
  config.optimizer.moments = Moments::kInt8;
  EXPECT_TRUE(refusal(resumed, config, {"optimizer.moments"})
                  .advice()
                  .starts_with("Restore optimizer.moments, "));
}

TEST(ResumedSettings, ALengthThatNoKeyExplainsIsNamed) {
  Config config;
  config.run.max_steps = 100;
  EXPECT_EQ(changed_keys(saved_without(config, {}), config, 100), Keys{"run.max_steps"});
}

}  // namespace
}  // namespace packtrain
