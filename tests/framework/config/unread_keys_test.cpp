// Keys that nothing would read are errors.
#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

TEST(UnreadKeys, MomentumNeedsMuonInTheSectionOrAGroup) {
  const std::string error = load_error("optimizer: {momentum: 0.9}");
  EXPECT_EQ(error,
            "optimizer.momentum is 0.9 (config.yaml:1:23), but optimizer.name is adamw (default), "
            "which does not read it\n"
            "  Leave it out, or set optimizer.name: muon.");
  EXPECT_NO_THROW(load("optimizer: {name: muon, momentum: 0.9}"));
  EXPECT_NO_THROW(load("optimizer: {momentum: 0.9, groups: [{match: '*q*', name: muon}]}"));
}

TEST(UnreadKeys, ADecayPartNeedsTheScheduleThatHasOne) {
  for (const char* setting : {"decay_ratio: 0.2", "decay_steps: 5", "decay_shape: cosine"}) {
    const std::string keys = setting;
    const std::string error = load_error("schedule: {" + keys + "}");
    EXPECT_NE(error.find("schedule.name is cosine (default), which does not read it"),
              std::string::npos)
        << error;
    EXPECT_NO_THROW(load("schedule: {name: warmup_stable_decay, " + keys + "}"));
  }
}

TEST(UnreadKeys, AnAdaptersKeysNeedAnAdapter) {
  EXPECT_EQ(load_error("adapter: {rank: 8}"),
            "adapter.rank is given (config.yaml:1:17), but adapter.kind is none (default): the "
            "whole model would be trained\n"
            "  Set adapter.kind: lora; or leave the key out, or set adapter.kind: none.");
  // Also where it has the default's value.
  EXPECT_NE(load_error("adapter: {targets: [all-linear]}").find("adapter.targets is given"),
            std::string::npos);
  EXPECT_NO_THROW(load("adapter: {kind: lora, rank: 8}"));
  EXPECT_NO_THROW(load("adapter: {kind: none, rank: 8}"));
  EXPECT_NO_THROW(load("adapter: {path: folder}"));
  EXPECT_NO_THROW(load("adapter: {rank: 8}\nadapters: [{name: a, train: x}]"));
}

TEST(UnreadKeys, TheResolvedConfigurationLoadsAsTheSame) {
  const Config config = load("{}");
  EXPECT_EQ(dump_config(load(dump_config(config))), dump_config(config));
}

}  // namespace
}  // namespace packtrain
