// Tests checkpoints that a thread writes while training changes the weights.
#include "training/saving/run_saver.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <span>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/sharding/toy_blocks.h"
#include "training/checkpoint/manifest.h"
#include "training/optimizers/adamw.h"

namespace packtrain {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

class RunSaverTest : public ::testing::Test {
 protected:
  explicit RunSaverTest(
      const ShardingOptions& options = {.optimizer_state = adamw_state(at::kFloat)},
      ParameterEncoding encoding = {})
      : model_(test::make_toy_blocks({.num_layers = 2, .layer_encoding = encoding}), *device_,
               {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)}, options) {
    config_.run.output = folder_.path();
    config_.checkpoint.keep = 100;
    config_.checkpoint.max_failed_saves = 1;
    set_all(0);
  }

  void set_all(double value) {
    for (const ShardView& shard : model_.parameters().shards()) {
      shard.weight.fill_(value);
      find_tensor(shard.optimizer, kExpAvg).fill_(-value);
      find_tensor(shard.optimizer, kExpAvgSq).fill_(2 * value);
    }
  }

  static TrainingState after(std::int64_t step) {
    TrainingState state;
    state.step = step;
    state.num_ranks = 1;
    return state;
  }

  // Every element is the step that it was saved after.
  void expect_saved(std::int64_t step) {
    const std::string folder = folder_ / ("checkpoints/step-" + std::to_string(step));
    load_checkpoint(folder, model_.parameters().shards(), /*with_optimizer_state=*/true);
    const auto is_all = [](const at::Tensor& values, std::int64_t value) {
      return at::equal(values, at::full_like(values, value));
    };
    for (const ShardView& shard : model_.parameters().shards()) {
      EXPECT_TRUE(is_all(shard.weight, step)) << shard.parameter;
      EXPECT_TRUE(is_all(find_tensor(shard.optimizer, kExpAvg), -step)) << shard.parameter;
      EXPECT_TRUE(is_all(find_tensor(shard.optimizer, kExpAvgSq), 2 * step)) << shard.parameter;
    }
  }

  const at::NoGradGuard no_grad_;
  TemporaryFolder folder_;
  Config config_;
  std::unique_ptr<Device> device_ = make_cpu_device({});
  std::unique_ptr<World> world_ = join_world();
  ShardedModel model_;
};

TEST_F(RunSaverTest, SavesTheStateOfTheStepWhileTrainingContinues) {
  {
    RunSaver saver(config_, *world_, *device_, model_, -1);
    for (std::int64_t step = 1; step <= 20; ++step) {
      saver.before_update();
      model_.compute().run([&](StreamHandle) { set_all(static_cast<double>(step)); });
      if (step % 2 == 0) saver.save(after(step));
    }
    saver.finish();
    EXPECT_EQ(saver.newest(), 20);
    EXPECT_EQ(saver.take_num_failed(), 0);
  }
  for (std::int64_t step = 2; step <= 20; step += 2) expect_saved(step);
}

// Its checkpoints are written from the state itself.
class RunSaverOfHostState : public RunSaverTest {
 protected:
  RunSaverOfHostState()
      : RunSaverTest({.optimizer_state = adamw_state(at::kFloat), .offload_state = true},
                     {.type = DataType::kBFloat16}) {}
};

TEST_F(RunSaverOfHostState, AnUpdateWaitsForTheSaveThatReadsTheState) {
  {
    RunSaver saver(config_, *world_, *device_, model_, -1);
    for (std::int64_t step = 1; step <= 20; ++step) {
      saver.before_update();
      EXPECT_TRUE(step < 2 || saver.newest() == step - 1) << "the save is done";
      set_all(static_cast<double>(step));
      saver.save(after(step));
      EXPECT_TRUE(saver.reads_state());
    }
    saver.finish();
    EXPECT_FALSE(saver.reads_state());
  }
  for (std::int64_t step = 1; step <= 20; ++step) expect_saved(step);
}

TEST_F(RunSaverTest, ConstantsAreInEveryCheckpoint) {
  const ShardView constant{.parameter = "initial.a.lora_A",
                           .shape = {3},
                           .numel = 3,
                           .trainable = false,
                           .weight = at::full({3}, 2.5)};
  {
    RunSaver saver(config_, *world_, *device_, model_, -1, std::span(&constant, 1));
    saver.save(after(1));
    set_all(2);
    saver.save_now(after(2));
  }
  for (const char* step : {"checkpoints/step-1", "checkpoints/step-2"}) {
    ShardView read = constant;
    read.weight = at::full({3}, 0.0);
    load_checkpoint(folder_ / step, std::span(&read, 1), /*with_optimizer_state=*/false);
    EXPECT_TRUE(read.weight.equal(constant.weight)) << step;
    EXPECT_NE(read_text(folder_ / step + "/manifest.json", ErrorCategory::kCheckpoint)
                  .find(kInitialValuesRequirement),
              std::string::npos);
  }
}

TEST_F(RunSaverTest, EndsOnlyWhenTheLastSaveIsThere) {
  {
    RunSaver saver(config_, *world_, *device_, model_, -1);
    set_all(7);
    saver.save(after(7));
  }
  expect_saved(7);
}

TEST_F(RunSaverTest, ALossThatArrivesLaterIsWrittenIntoTheManifest) {
  RunSaver saver(config_, *world_, *device_, model_, -1);
  TrainingState state = after(3);
  state.evaluation_due = true;
  saver.save(state);
  EXPECT_TRUE(saver.has_begun(3));
  state.validation_loss = 1.5;
  state.evaluation_due = false;
  saver.amend(state);
  saver.finish();
  const TrainingState saved = read_checkpoint_state(folder_ / "checkpoints/step-3");
  EXPECT_EQ(saved.validation_loss, 1.5);
  EXPECT_FALSE(saved.evaluation_due);
}

TEST_F(RunSaverTest, UntilThenTheCheckpointSaysThatItIsDue) {
  RunSaver saver(config_, *world_, *device_, model_, -1);
  TrainingState state = after(3);
  state.evaluation_due = state.samples_due = true;
  saver.save_now(state);
  const TrainingState saved = read_checkpoint_state(folder_ / "checkpoints/step-3");
  EXPECT_TRUE(saved.evaluation_due);
  EXPECT_TRUE(saved.samples_due);
  EXPECT_FALSE(saved.validation_loss.has_value());
}

TEST_F(RunSaverTest, ALossForACheckpointThatIsNotThereIsNoFailure) {
  write_bytes(folder_ / "checkpoints", "a file in the way");
  RunSaver saver(config_, *world_, *device_, model_, -1);
  saver.save(after(1));
  saver.amend(after(1));
  saver.save(after(2));
  EXPECT_EQ(saver.take_num_failed(), 1);
}

TEST_F(RunSaverTest, ALauncherThatCannotBeNotifiedIsNoFailedSave) {
  ASSERT_EQ(setenv("PACKTRAIN_STATUS_FILE", "/dev/full", 1), 0);
  RunSaver saver(config_, *world_, *device_, model_, -1);
  saver.save(after(1));
  saver.finish();
  EXPECT_EQ(saver.newest(), 1);
  saver.save_now(after(2));
  EXPECT_EQ(saver.newest(), 2);
  EXPECT_EQ(saver.take_num_failed(), 0);
  unsetenv("PACKTRAIN_STATUS_FILE");
}

TEST_F(RunSaverTest, AFailureSurfacesAtTheNextSaveAndIsCounted) {
  write_bytes(folder_ / "checkpoints", "a file in the way");
  RunSaver saver(config_, *world_, *device_, model_, -1);
  saver.save(after(1));
  saver.save(after(2));  // which waits for the first: one failure is allowed
  EXPECT_EQ(saver.take_num_failed(), 1);
  EXPECT_EQ(error_of([&] { saver.save(after(3)); }).category(), ErrorCategory::kCheckpoint);
  std::filesystem::remove(folder_ / "checkpoints");
  saver.save(after(4));
  saver.finish();
  EXPECT_EQ(saver.newest(), 4);
}

}  // namespace
}  // namespace packtrain
