// Checks between settings of the schedule.
#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

TEST(Schedule, SharesOfWarmUpAndDecayFitTheRun) {
  const std::string schedule = "schedule: {name: warmup_stable_decay, warmup_ratio: 0.6, ";
  EXPECT_EQ(load_error(schedule + "decay_ratio: 0.6}"),
            "schedule.warmup_ratio is 0.6 (config.yaml:1:53), but schedule.decay_ratio is 0.6 "
            "(config.yaml:1:71): together they are more than the run\n"
            "  Lower one of them.");
  EXPECT_NO_THROW(load(schedule + "decay_ratio: 0.4}"));
  EXPECT_NO_THROW(load("schedule: {warmup_ratio: 0.95}"));  // the default decays to the last step
}

}  // namespace
}  // namespace packtrain
