// Starts and ends runs in one process many times: threads, open files and communicators that are
// not freed would add up.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "framework/data/synthetic.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/world_fixture.h"
#include "training/loop/run.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr int kNumLoops = 200;
constexpr int kNumFirst = 10;  // until libraries have opened what they keep

std::ptrdiff_t num_entries(const char* folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

// The kernel lists a thread for a moment after it was joined.
bool comes_down_to(std::ptrdiff_t wanted, const char* folder) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (num_entries(folder) > wanted) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// Rank 0's folder, known to all.
std::string shared_path(const std::string& mine) {
  std::string path = mine;
  path.resize(512);
  test_world().control().broadcast(path.data(), path.size(), 0, nullptr);
  return path.substr(0, path.find('\0'));
}

Config small_config(const std::string& folder) {
  Config config;
  config.model.config =
      R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 64,
          "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
          "tie_word_embeddings": true})";
  config.data.train = {{folder + "/store"}};
  config.data.max_length = 64;
  config.batch.global_batch_size = 4;
  config.batch.max_tokens_per_micro_batch = 128;
  config.precision.compute = Precision::kFloat32;
  config.precision.reduce = Precision::kFloat32;
  config.run.max_steps = 2;
  config.checkpoint.save_steps = 1;  // one during training, one at its end
  return config;
}

TEST(RunTraining, LeavesNoThreadOrFileAfterAnyNumberOfRuns) {
  const test::TemporaryFolder mine;
  const std::string folder = shared_path(mine.path());
  World& world = test_world();
  if (world.rank() == 0) {
    prepare_synthetic({.lengths = {2.5, 0.5, 4, 32}, .num_examples = 32, .vocab_size = 64},
                      folder + "/store", false);
  }
  world.control().barrier();
  Config config = small_config(folder);
  std::ptrdiff_t num_threads = 0;
  std::ptrdiff_t num_files = 0;
  for (int loop = 0; loop < kNumLoops; ++loop) {
    config.run.output = folder + "/run-" + std::to_string(loop);
    run_training(config, world);
    world.control().barrier();
    if (world.rank() == 0) {
      EXPECT_TRUE(fs::exists(config.run.output + "/checkpoints/step-2/manifest.json"));
      fs::remove_all(config.run.output);
    }
    if (loop != kNumFirst) continue;
    num_threads = num_entries("/proc/self/task");
    num_files = num_entries("/proc/self/fd");
  }
  EXPECT_TRUE(comes_down_to(num_threads, "/proc/self/task"));
  EXPECT_LE(num_entries("/proc/self/fd"), num_files);
  world.control().barrier();  // rank 0 removes its folder
}

}  // namespace
}  // namespace packtrain
