// Tests the thread that does something for committed checkpoints.
#include "training/saving/step_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>

namespace packtrain {
namespace {

using Steps = std::vector<std::int64_t>;

constexpr std::chrono::seconds kPatience{60};

TEST(StepWorker, StepsAreWorkedOnInOrder) {
  Steps done;
  StepWorker worker([&](std::int64_t step, const std::stop_token&) { done.push_back(step); },
                    /*newest_only=*/false);
  for (const std::int64_t step : {4, 8, 12}) EXPECT_EQ(worker.add(step), std::nullopt);
  EXPECT_TRUE(worker.wait(kPatience));
  EXPECT_EQ(done, (Steps{4, 8, 12}));
  EXPECT_EQ(worker.steps(), Steps());
}

TEST(StepWorker, ANewerStepReplacesTheOneThatWaits) {
  Steps done;
  std::binary_semaphore begun(0);
  std::binary_semaphore may_end(0);
  StepWorker worker(
      [&](std::int64_t step, const std::stop_token&) {
        if (step == 4) {
          begun.release();
          may_end.acquire();
        }
        done.push_back(step);
      },
      /*newest_only=*/true);
  worker.add(4);
  begun.acquire();
  EXPECT_EQ(worker.add(8), std::nullopt);
  EXPECT_EQ(worker.add(12), 8);
  EXPECT_EQ(worker.steps(), (Steps{4, 12}));
  EXPECT_FALSE(worker.wait(std::chrono::milliseconds(1)));
  may_end.release();
  EXPECT_TRUE(worker.wait(kPatience));
  EXPECT_EQ(done, (Steps{4, 12}));
}

TEST(StepWorker, AStopAsksTheWorkToEndAndForgetsWhatWaits) {
  Steps done;
  std::binary_semaphore begun(0);
  StepWorker worker(
      [&](std::int64_t step, const std::stop_token& stops) {
        done.push_back(step);
        begun.release();
        while (!stops.stop_requested()) std::this_thread::yield();
      },
      /*newest_only=*/false);
  worker.add(4);
  worker.add(8);
  begun.acquire();
  worker.stop();
  EXPECT_EQ(done, Steps{4});
  EXPECT_EQ(worker.steps(), Steps());
}

}  // namespace
}  // namespace packtrain
