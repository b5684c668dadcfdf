// Tests the section optimizer: groups of parameters, and settings that contradict each other.
#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

constexpr const char* kGroups =
    "optimizer:\n"
    "  groups:\n"
    "    - {match: '*norm*', weight_decay: 0}\n"
    "    - {match: embed.weight, name: adamw, learning_rate: 3.0e-4}\n";

std::string group_error(const std::string& groups) {
  return load_error("optimizer: {groups: " + groups + "}");
}

void expect_group_error(const std::string& groups, const std::string& part) {
  const std::string error = group_error(groups);
  EXPECT_NE(error.find("optimizer.groups: got"), std::string::npos) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(OptimizerGroups, AreReadAndWritten) {
  const std::vector<OptimizerGroupSetting> want = {
      {.match = "*norm*", .weight_decay = 0},
      {.match = "embed.weight", .name = "adamw", .learning_rate = 3e-4}};
  EXPECT_EQ(load(kGroups).optimizer.groups, want);
  EXPECT_EQ(load(dump_config(load(kGroups))).optimizer.groups, want);
}

TEST(OptimizerGroups, AreNoneByDefaultAndWithNull) {
  EXPECT_TRUE(load("").optimizer.groups.empty());
  EXPECT_TRUE(load(kGroups, {"optimizer.groups=null"}).optimizer.groups.empty());
}

TEST(OptimizerGroups, AnUnknownKeyNamesTheNearestOne) {
  expect_group_error("[{match: a, weigth_decay: 0}]", "Did you mean 'weight_decay'");
}

TEST(OptimizerGroups, AnUnknownOptimizerIsRefused) {
  expect_group_error("[{match: a, name: sgd}]", "'name' is \"sgd\", wanted one of adamw");
}

TEST(OptimizerGroups, NumbersBelowZeroAreRefused) {
  expect_group_error("[{match: a, learning_rate: -1}]", "'learning_rate' is -1");
  expect_group_error("[{match: a, weight_decay: x}]", "'weight_decay' is \"x\"");
}

TEST(OptimizerGroups, AGroupNeedsAPatternAndAChange) {
  expect_group_error("[{weight_decay: 0}]", "has no 'match'");
  expect_group_error("[{match: a}]", "The group 'a' changes nothing");
}

TEST(OptimizerGroups, AGroupIsAMapOfAList) {
  expect_group_error("{match: a}", "wanted a list");
  expect_group_error("[a]", "wanted a list");
}

TEST(OptimizerGroups, ARateNeedsARateOfTheSection) {
  const std::string error =
      load_error("optimizer: {learning_rate: 0, groups: [{match: a, learning_rate: 1}]}");
  EXPECT_NE(error.find("optimizer.learning_rate is 0 (config.yaml:1:28)"), std::string::npos)
      << error;
  EXPECT_EQ(load("optimizer: {learning_rate: 0, groups: [{match: a, learning_rate: 0}]}")
                .optimizer.groups.size(),
            1U);
}

}  // namespace
}  // namespace packtrain
