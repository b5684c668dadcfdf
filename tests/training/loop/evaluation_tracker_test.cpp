// What a run keeps of its evaluations, and what a resumed run takes over from its checkpoint.
#include "training/loop/evaluation_tracker.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace packtrain {
namespace {

const EvaluationSets kNoSets(std::span<const Config>(), "");

TrainingState state_of(const EvaluationTracker& tracker, std::int64_t steps_done) {
  TrainingState state;
  state.step = steps_done;
  tracker.add_to(state);
  return state;
}

TEST(EvaluationTracker, SavesTheLossOfTheWeightsAndTheBestOnes) {
  Config config;
  config.checkpoint.keep_best = 2;
  EvaluationTracker tracker(config, kNoSets, std::nullopt);
  EXPECT_TRUE(tracker.add(1, 3.0));
  EXPECT_TRUE(tracker.add(2, 2.0));
  EXPECT_FALSE(tracker.add(3, 4.0));
  const TrainingState state = state_of(tracker, 3);
  EXPECT_EQ(state.validation_loss, 4.0);
  EXPECT_EQ(state.best_losses, (std::vector<double>{2.0, 3.0}));
}

TEST(EvaluationTracker, AResumedRunTakesOverWhatIsDueIfItStillHasIt) {
  ResumePoint resumed;
  resumed.evaluation_due = resumed.samples_due = true;
  Config config;
  EXPECT_FALSE(EvaluationTracker(config, kNoSets, resumed).due().any());
  config.samples.steps = 1;
  const EvaluationTracker tracker(config, kNoSets, resumed);
  EXPECT_FALSE(tracker.due().evaluation);  // there are no sets
  EXPECT_TRUE(tracker.due().samples);
  EXPECT_TRUE(state_of(tracker, 0).samples_due);
}

TEST(EvaluationTracker, AnEarlyEndMakesSamplesDue) {
  Config config;
  config.run.early_stopping_patience = 1;
  config.samples.steps = 100;
  EvaluationTracker tracker(config, kNoSets, std::nullopt);
  tracker.add(1, 1.0);
  EXPECT_FALSE(tracker.ends_run());
  tracker.add(2, 1.0);
  EXPECT_TRUE(tracker.ends_run());
  EXPECT_TRUE(tracker.due().samples);
  tracker.finish_samples();
  EXPECT_FALSE(tracker.due().any());
}

TEST(EvaluationTracker, LossesOfAnotherEvaluationSetAreNotTakenOver) {
  ResumePoint resumed;
  resumed.best_losses = {0.5};
  resumed.validation_set = "other";
  Config config;
  config.checkpoint.keep_best = 1;
  EvaluationTracker other(config, kNoSets, resumed);
  EXPECT_TRUE(other.add(1, 1.0));
  resumed.validation_set = "";
  EvaluationTracker same(config, kNoSets, resumed);
  EXPECT_FALSE(same.add(1, 1.0));
}

}  // namespace
}  // namespace packtrain
