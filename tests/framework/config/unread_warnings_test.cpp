// Keys that are set and have no effect, which are warnings.
#include "framework/config/unread_warnings.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

std::vector<UnreadKey> list_unread_keys(const std::string& path,
                                        const std::vector<std::string>& overrides = {}) {
  std::vector<UnreadKey> keys;
  load_config(path, overrides, keys);
  return keys;
}

std::vector<std::string> unread(const std::string& yaml,
                                const std::vector<std::string>& overrides = {}) {
  const ConfigText file(yaml);
  std::vector<std::string> texts;
  for (const UnreadKey& key : list_unread_keys(file.path(), overrides)) {
    std::string text = key.what + ". " + key.advice;
    for (std::size_t at; (at = text.find(file.path())) != std::string::npos;) {
      text.replace(at, file.path().size(), "config.yaml");
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(UnreadWarnings, NameTheKeyTheReasonAndWhatToDo) {
  const auto texts = unread("samples: {steps: 10, top_p: 0.9}");
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts.front(),
            "samples.top_p: 0.9 (config.yaml:1:29) has no effect: samples.temperature is "
            "0 (default). Set samples.temperature above 0, or leave samples.top_p out.");
}

struct Case {
  const char* key;
  const char* unread;  // the key has no effect
  const char* read;    // and here it has one
};

const Case kCases[] = {
    {"samples.top_p", "samples: {steps: 9, top_p: 0.5}",
     "samples: {steps: 9, top_p: 0.5, temperature: 1}"},
    {"samples.num_prompts", "samples: {num_prompts: 8}", "samples: {num_prompts: 8, steps: epoch}"},
    {"model.prefix", "model: {prefix: a., config: {}}", "model: {prefix: a., path: folder}"},
    {"adapter.init", "adapter: {path: folder, init: gaussian}",
     "adapter: {kind: lora, init: gaussian}"},
    {"data.mixture_until", "data: {train: a, mixture_until: all_exhausted}",
     "data: {train: [{path: a, share: 0.5}, {path: b, share: 0.5}], mixture_until: all_exhausted}"},
    {"data.mixture_until", "data: {train: [{path: a, share: 1}], mixture_until: all_exhausted}",
     "data: {train: [{path: a, probability: 0.5}, {path: b, probability: 0.5}], "
     "mixture_until: all_exhausted}"},
    {"batch.micro_batch_size", "batch: {strategy: balanced, micro_batch_size: 2}",
     "batch: {strategy: padding, micro_batch_size: 2}"},
    {"batch.packing_window", "batch: {packing_window: 9}",
     "batch: {strategy: multipack, packing_window: 9}"},
    {"batch.plan_file", "batch: {strategy: balanced, plan_file: plan.jsonl}",
     "batch: {strategy: file, plan_file: plan.jsonl}"},
    {"optimizer.epsilon", "optimizer: {name: lion, epsilon: 1.0e-6}",
     "optimizer: {name: lion, epsilon: 1.0e-6, groups: [{match: '*q*', name: adamw}]}"},
    {"optimizer.betas", "optimizer: {name: adafactor, betas: [0.8, 0.95]}",
     "optimizer: {name: lion, betas: [0.8, 0.95]}"},
    {"optimizer.moments", "optimizer: {name: adafactor, moments: bf16}",
     "optimizer: {name: muon, moments: bf16}"},
    {"optimizer.decay_norms_and_biases",
     "optimizer: {weight_decay: 0, decay_norms_and_biases: true}",
     "optimizer: {weight_decay: 0.1, decay_norms_and_biases: true}"},
    {"checkpoint.keep_best", "checkpoint: {keep_best: 2}\ndata: {validation: v}",
     "checkpoint: {keep_best: 2}\ndata: {validation: v}\nrun: {evaluate_steps: 9}"},
    {"parallel.gather_slots", "parallel: {zero_stage: 2, gather_slots: 4}",
     "parallel: {gather_slots: 4}"},
    {"schedule.warmup_ratio", "schedule: {warmup_ratio: 0.1, warmup_steps: 5}",
     "schedule: {warmup_ratio: 0.1}"},
    {"schedule.decay_ratio",
     "schedule: {name: warmup_stable_decay, decay_ratio: 0.3, decay_steps: 5}",
     "schedule: {name: warmup_stable_decay, decay_ratio: 0.3}"},
    {"schedule.min_ratio", "schedule: {name: constant, min_ratio: 0.5}",
     "schedule: {name: linear, min_ratio: 0.5}"},
    {"guard.spike_window", "guard: {spikes: ignore, spike_window: 64}",
     "guard: {spikes: warn, spike_window: 64}"},
    {"guard.spike_threshold", "guard: {spike_threshold: 9}",
     "guard: {spikes: skip, spike_threshold: 9}"},
    {"guard.max_skipped_steps", "guard: {spikes: warn, max_skipped_steps: 1}",
     "guard: {non_finite: skip, max_skipped_steps: 1}"},
    {"metrics.port", "metrics: {serve: false, port: 19500}", "metrics: {port: 19500}"},
    {"run.early_stopping_min_delta", "run: {early_stopping_min_delta: 0.1}",
     "run: {early_stopping_min_delta: 0.1, early_stopping_patience: 2, evaluate_steps: 5}\n"
     "data: {validation: v}"},
    {"run.trace_first", "run: {trace_first: 9}", "run: {trace_first: 9, trace_steps: 1}"},
    {"run.command_timeout_s", "run: {command_timeout_s: 9}",
     "run: {command_timeout_s: 9}\ncheckpoint: {after_save: [sync]}"},
};

TEST(UnreadWarnings, AreOfKeysThatNothingReads) {
  for (const Case& one : kCases) {
    const auto texts = unread(one.unread);
    ASSERT_EQ(texts.size(), 1U) << one.unread;
    EXPECT_TRUE(texts.front().starts_with(std::string(one.key) + ": ")) << texts.front();
    const auto others = unread(one.read);
    EXPECT_TRUE(others.empty()) << one.read << ": " << others.front();
  }
}

TEST(UnreadWarnings, NameNoKeyThatHasItsDefault) {
  EXPECT_TRUE(unread("{}").empty());
  EXPECT_TRUE(unread(dump_config(load("{}"))).empty());
  EXPECT_TRUE(unread("samples: {top_p: 1}\nguard: {spike_window: 128}").empty());
}

TEST(UnreadWarnings, OfAScheduleCountEachAdaptersOwn) {
  const std::string one = "{name: a, train: x, schedule: {warmup_steps: 5}}";
  EXPECT_EQ(unread("schedule: {warmup_ratio: 0.1}\nadapters: [" + one + "]").size(), 1U);
  EXPECT_TRUE(unread("schedule: {warmup_ratio: 0.1}\nadapters: [" + one + ", {name: b, train: y}]")
                  .empty());
}

TEST(UnreadWarnings, NameALearningRateOfZero) {
  EXPECT_EQ(unread("optimizer: {learning_rate: 0}"),
            std::vector<std::string>{"optimizer.learning_rate is 0 (config.yaml:1:28): nothing is "
                                     "trained. Set a rate above 0, unless the run is to change no "
                                     "weight, as to measure it."});
  const auto texts = unread("optimizer: {groups: [{match: '*norm*', learning_rate: 0}]}");
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_TRUE(texts.front().starts_with(
      "optimizer.groups (config.yaml:1:21) gives '*norm*' the learning rate 0: its parameters are "
      "not trained. "))
      << texts.front();
  EXPECT_NE(texts.front().find("model.frozen: ['*norm*']"), std::string::npos) << texts.front();
  EXPECT_EQ(unread("optimizer: {learning_rate: 0, groups: [{match: a, learning_rate: 0}]}").size(),
            1U);
  EXPECT_TRUE(unread("optimizer: {groups: [{match: a, weight_decay: 0}]}").empty());
}

TEST(UnreadWarnings, NameEachAdapterWithALearningRateOfZero) {
  const std::string adapters =
      "adapters: [{name: a, train: x, learning_rate: 0}, {name: b, train: y, learning_rate: 1}]";
  const auto texts = unread("optimizer: {learning_rate: 0}\n" + adapters);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_TRUE(texts.front().starts_with("adapters: 'a' has the learning rate 0: nothing"))
      << texts.front();
}

TEST(UnreadWarnings, AreNotOfTheConfigurationsInTheRepository) {
  std::size_t num_files = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(CONFIGS_FOLDER)) {
    const std::string path = file.path().string();
    if (file.path().extension() != ".yaml" || path.find("/sweeps/") != std::string::npos) continue;
    ++num_files;
    const auto keys = list_unread_keys(path);
    EXPECT_TRUE(keys.empty()) << path << ": " << keys.front().what;
  }
  EXPECT_GT(num_files, 10U);
}

}  // namespace
}  // namespace packtrain
