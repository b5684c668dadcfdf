// Tests how values are read, and the errors of wrong ones.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

TEST(ConfigValues, AnEmptyFileGivesTheDefaults) {
  EXPECT_EQ(dump_config(load("")), dump_config(Config()));
  EXPECT_EQ(dump_config(load("memory:\nrun: {}\n")), dump_config(Config()));
}

TEST(ConfigValues, EveryKindOfValueIsRead) {
  const Config config = load(R"(
model: {path: models/a b, frozen: ["embed*", "*.norm"]}
data: {train: 7, max_length: 512, too_long: drop}
batch: {strategy: padding_free, order: sequential, normalize: examples}
optimizer: {learning_rate: 1.0e-5, betas: [0.8, 0], epsilon: 1e-9}
schedule: {name: linear, warmup_steps: 5}
parallel: {backend: mpi, zero_stage: 2}
precision: {compute: fp32, reduce: fp32, deterministic: true}
run: {max_steps: null, seed: 18446744073709551615}
)");
  EXPECT_EQ(config.model.path, "models/a b");
  EXPECT_EQ(config.model.frozen, (std::vector<std::string>{"embed*", "*.norm"}));
  EXPECT_EQ(config.data.train, (std::vector<TrainStore>{{.path = "7"}}));
  EXPECT_EQ(config.data.max_length, 512);
  EXPECT_EQ(config.data.too_long, TooLong::kDrop);
  EXPECT_EQ(config.batch.strategy, Strategy::kPaddingFree);
  EXPECT_EQ(config.batch.order, OrderKind::kSequential);
  EXPECT_EQ(config.batch.normalize, Normalize::kExamples);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-5);
  EXPECT_EQ(config.optimizer.betas, (std::array{0.8, 0.0}));
  EXPECT_EQ(config.optimizer.epsilon, 1e-9);
  EXPECT_EQ(config.schedule.name, ScheduleKind::kLinear);
  EXPECT_EQ(config.schedule.warmup_steps, 5);
  EXPECT_EQ(config.parallel.backend, Backend::kMpi);
  EXPECT_EQ(config.parallel.zero_stage, 2);
  EXPECT_EQ(config.precision.compute, Precision::kFloat32);
  EXPECT_TRUE(config.precision.deterministic);
  EXPECT_EQ(config.run.max_steps, std::nullopt);
  EXPECT_EQ(config.run.seed, 18446744073709551615ULL);
}

TEST(ConfigValues, ModelConfigBecomesTypedJson) {
  const Config config = load(R"(
model:
  config:
    model_type: llama
    hidden_size: 256
    rms_norm_eps: 1e-5
    rope_theta: 500000.0
    tie_word_embeddings: true
    pad_token_id: null
    torch_dtype: "16"
    eos_token_id: [1, -2]
    rope_scaling: {rope_type: llama3, factor: 8.0}
)");
  EXPECT_EQ(config.model.config,
            R"({"model_type":"llama","hidden_size":256,"rms_norm_eps":1e-05,)"
            R"("rope_theta":500000.0,"tie_word_embeddings":true,"pad_token_id":null,)"
            R"("torch_dtype":"16","eos_token_id":[1,-2],)"
            R"("rope_scaling":{"rope_type":"llama3","factor":8.0}})");
}

TEST(ConfigValues, ADumpLoadsToAnEqualConfig) {
  Config config;
  config.model.config = R"({"model_type":"llama","n":1,"x":0.1,"deep":{"list":[1,"true",null]}})";
  config.model.frozen = {"a: b", "*\"#"};
  config.data.train = {{.path = "stores/with space: and # more"},
                       {.path = "b", .repeats = 3, .loss_weight = 0.1},
                       {.path = "c", .repeats = 0.1}};
  config.batch.global_batch_size.reset();
  config.batch.global_batch_tokens = 8192;
  config.batch.max_tokens_per_micro_batch.reset();
  config.memory.recompute = {Recompute::kFull, 20, Recompute::kSelective};
  config.memory.fit = MemoryFit::kKeepTokens;
  config.memory.limit_gib = 1.5;
  config.data.validation = {{"", "null"}};
  config.optimizer.learning_rate = 0.1 + 0.2;
  config.schedule.warmup_steps = 3;
  config.run.max_steps = 12;
  config.run.evaluate_steps = 4;
  config.run.output = "/runs/\xC3\xA9t\xC3\xA9\n";
  const Config again = load(dump_config(config));
  EXPECT_EQ(dump_config(again), dump_config(config));
  EXPECT_EQ(again.model.config, config.model.config);
  EXPECT_EQ(again.model.frozen, config.model.frozen);
  EXPECT_EQ(again.data.train, config.data.train);
  EXPECT_EQ(again.data.validation, config.data.validation);
  EXPECT_EQ(again.optimizer.learning_rate, config.optimizer.learning_rate);
  EXPECT_EQ(again.run.output, config.run.output);
}

TEST(ConfigValues, AnIntervalIsStepsAnEpochOrAShareOfTheRun) {
  const auto every = [](const std::string& value) {
    const Config config = load("data: {validation: v}\nrun: {evaluate_steps: " + value +
                               "}\ncheckpoint: {save_steps: " + value + "}");
    EXPECT_EQ(config.run.evaluate_steps, config.checkpoint.save_steps);
    EXPECT_EQ(load(dump_config(config)).run.evaluate_steps, config.run.evaluate_steps) << value;
    return config.run.evaluate_steps;
  };
  EXPECT_EQ(every("13"), Interval(13));
  EXPECT_TRUE(every("0").is_never());
  EXPECT_TRUE(every("epoch").epoch);
  EXPECT_EQ(every("0.1").share, 0.1);
  for (const char* wrong : {"-1", "1.0", "1.5", "0.0", "-0.1", "epochs", "null", "true", ".nan"}) {
    EXPECT_NE(load_error(std::string("checkpoint: {save_steps: ") + wrong + "}")
                  .find("a share of the run above 0 and below 1"),
              std::string::npos)
        << wrong;
  }
}

TEST(ConfigValues, AnEvaluationAtTheStartNeedsAStore) {
  EXPECT_NE(load_error("run: {evaluate_at_start: true}").find("data.validation"),
            std::string::npos);
}

TEST(ConfigValues, ValuesOfOtherTrainersAreAnsweredWithOurs) {
  EXPECT_NE(load_error("schedule: {name: wsd}").find("Did you mean warmup_stable_decay?"),
            std::string::npos);
  EXPECT_NE(load_error("precision: {compute: bfloat16}").find("Did you mean bf16?"),
            std::string::npos);
}

TEST(ConfigValues, ANegativeZeroIsZero) {
  const Config config = load("optimizer: {betas: [-.0, 0.5], weight_decay: -0.0}");
  EXPECT_NE(dump_config(config).find("betas: [0, 0.5]"), std::string::npos) << dump_config(config);
}

TEST(ConfigValues, EvaluationTakesOneStoreOrSeveralWithNames) {
  const auto stores = [](const char* yaml) { return load(yaml).data.validation; };
  EXPECT_EQ(stores("data: {validation: a}"), (std::vector<ValidationStore>{{"", "a"}}));
  EXPECT_EQ(stores("data: {validation: 7}"), (std::vector<ValidationStore>{{"", "7"}}));
  EXPECT_TRUE(stores("data: {validation: null}").empty());
  const Config config = load("data: {validation: {web: b, code.v2: a}}");
  EXPECT_EQ(config.data.validation, (std::vector<ValidationStore>{{"web", "b"}, {"code.v2", "a"}}))
      << "in the order of the file";
  EXPECT_EQ(load(dump_config(config)).data.validation, config.data.validation);
  for (const char* wrong :
       {"[a]", "{'': a}", "{a b: c}", "{web: ''}", "{web: {path: a}}", "{web: 3}", "{'x\"y': a}"}) {
    EXPECT_NE(
        load_error("data: {validation: " + std::string(wrong) + "}").find("data.validation: got"),
        std::string::npos)
        << wrong;
  }
}

TEST(ConfigValues, TrainingTakesOneStoreOrSeveral) {
  const auto stores = [](const char* yaml) { return load(yaml).data.train; };
  EXPECT_EQ(stores("data: {train: a}"), (std::vector<TrainStore>{{.path = "a"}}));
  EXPECT_TRUE(stores("data: {train: null}").empty());
  EXPECT_EQ(stores("data: {train: [a, {path: b, repeats: 2}, {path: c, loss_weight: 0.5}]}"),
            (std::vector<TrainStore>{
                {.path = "a"}, {.path = "b", .repeats = 2}, {.path = "c", .loss_weight = 0.5}}));
  for (const char* wrong :
       {"[{repeats: 2}]", "[{path: a, repeats: 0}]", "[{path: a, loss_weight: 0}]",
        "[{path: a, weight: 1}]", "[[a]]", "['']", "{path: a}", "[{path: a, repeats: -1}]",
        "[{path: a, repeats: .nan}]", "[{path: a, repeats: two}]", "[{path: a, share: 1.5}]"}) {
    EXPECT_NE(load_error("data: {train: " + std::string(wrong) + "}").find("data.train: got"),
              std::string::npos)
        << wrong;
  }
}

TEST(ConfigValues, RepeatsMayBeFractionsAndSharesStandInTheirPlace) {
  const auto stores = [](const char* yaml) { return load(yaml).data.train; };
  EXPECT_EQ(
      stores("data: {train: [{path: a, repeats: 0.5}, {path: b, repeats: 2.5}]}"),
      (std::vector<TrainStore>{{.path = "a", .repeats = 0.5}, {.path = "b", .repeats = 2.5}}));
  const Config config = load(
      "data: {train: [{path: a, share: 0.3}, {path: b, share: 0.7, loss_weight: 2}], "
      "mixture_until: all_exhausted}");
  EXPECT_EQ(config.data.train,
            (std::vector<TrainStore>{{.path = "a", .share = 0.3},
                                     {.path = "b", .loss_weight = 2, .share = 0.7}}));
  EXPECT_EQ(config.data.mixture_until, MixtureUntil::kAllExhausted);
  EXPECT_EQ(load(dump_config(config)).data.train, config.data.train);
  EXPECT_EQ(dump_config(load(dump_config(config))), dump_config(config));
  EXPECT_EQ(stores("data: {train: [{path: a, probability: 1}]}"),
            (std::vector<TrainStore>{{.path = "a", .probability = 1}}));
}

TEST(ConfigValues, WrongSharesAreRefusedWithTheirReason) {
  const auto message = [](const std::string& list) {
    return load_error("data: {train: " + list + "}");
  };
  const auto expect = [&](const std::string& list, const std::string& part) {
    EXPECT_NE(message(list).find(part), std::string::npos) << message(list);
  };
  expect("[{path: a, share: 0.5}, b]", "All stores of the list have a share, or none: b has none.");
  expect("[{path: a, share: 0.5}, {path: b, probability: 0.5}]", "b has none");
  expect("[{path: a, share: 0.5}, {path: b, share: 0.4}]",
         "The share of all stores is 0.9 in sum, wanted 1.");
  expect("[{path: a, probability: 0.5}, {path: b, probability: 0.50001}]", "wanted 1.");
  expect("[{path: a, share: 1, probability: 1}]", "give one of the two");
  expect("[{path: a, share: 1, repeats: 2}]", "leave 'repeats' out");
  expect("[{path: a, share: 0}]", "Look at 'share'");
  expect("[{path: a, repeat: 2}]", "Did you mean 'repeats' instead of 'repeat'?");
  expect("[{path: a, probabilty: 1}]", "Did you mean 'probability' instead of 'probabilty'?");
  EXPECT_NO_THROW(
      load("data: {train: [{path: a, share: 0.3333333}, {path: b, share: 0.6666667}]}"));
}

TEST(ConfigValues, TheHashFollowsTheSettingsNotTheirSpelling) {
  EXPECT_EQ(hash_config(load("run: {seed: 1}")), hash_config(load("run:\n  seed:   1  # one\n")));
  EXPECT_NE(hash_config(load("run: {seed: 1}")), hash_config(load("run: {seed: 2}")));
}

struct WrongValue {
  const char* yaml;
  const char* error;
};

class WrongValues : public ::testing::TestWithParam<WrongValue> {};

TEST_P(WrongValues, AreNamedWithPlaceGotAndWanted) {
  EXPECT_EQ(load_error(GetParam().yaml), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Config, WrongValues,
    ::testing::Values(
        WrongValue{
            "run:\n  seed: 0\n  num_epochs: many\n",
            "config.yaml:3:15: run.num_epochs: got 'many', wanted an integer from 1 to 1000000"},
        WrongValue{"run: {num_epochs: 0}",
                   "config.yaml:1:19: run.num_epochs: got 0, wanted an integer from 1 to 1000000"},
        WrongValue{
            "run: {num_epochs: 1.5}",
            "config.yaml:1:19: run.num_epochs: got 1.5, wanted an integer from 1 to 1000000"},
        WrongValue{
            "run: {num_epochs: '2'}",
            "config.yaml:1:19: run.num_epochs: got '2', wanted an integer from 1 to 1000000"},
        WrongValue{
            "run:\n  num_epochs:\n",
            "config.yaml:2:3: run.num_epochs: got null, wanted an integer from 1 to 1000000"},
        WrongValue{"run: {num_epochs: 18446744073709551615}",
                   "config.yaml:1:19: run.num_epochs: got 18446744073709551615, wanted an integer "
                   "from 1 to 1000000"},
        WrongValue{"run: {max_steps: 0}",
                   "config.yaml:1:18: run.max_steps: got 0, wanted an integer >= 1 or null"},
        WrongValue{"run: {seed: -1}",
                   "config.yaml:1:13: run.seed: got -1, wanted an integer from 0 to 2^64 - 1"},
        WrongValue{"run: {output: ''}",
                   "config.yaml:1:15: run.output: got '', wanted text that is not empty"},
        WrongValue{"run: {output: [a]}", "config.yaml:1:15: run.output: got [\"a\"], wanted text"},
        WrongValue{"metrics: {serve: yes}",
                   "config.yaml:1:18: metrics.serve: got 'yes', wanted true or false"},
        WrongValue{"metrics: {port: 65536}",
                   "config.yaml:1:17: metrics.port: got 65536, wanted an integer from 1 to 65535"},
        WrongValue{"checkpoint: {keep: 0}",
                   "config.yaml:1:20: checkpoint.keep: got 0, wanted an integer from 1 to 1000000"},
        WrongValue{"parallel: {zero_stage: 1}",
                   "config.yaml:1:24: parallel.zero_stage: got 1, wanted an integer from 2 to 3"},
        WrongValue{"optimizer: {betas: [0.9, 1.0]}",
                   "config.yaml:1:20: optimizer.betas: got [0.9,1.0], wanted two numbers >= 0 and "
                   "< 1, like [0.9, 0.95]"},
        WrongValue{"optimizer: {betas: 0.9}",
                   "config.yaml:1:20: optimizer.betas: got 0.9, wanted two numbers >= 0 and < 1, "
                   "like [0.9, 0.95]"},
        WrongValue{"optimizer: {epsilon: 0}",
                   "config.yaml:1:22: optimizer.epsilon: got 0, wanted a number > 0"},
        WrongValue{"optimizer: {learning_rate: .nan}",
                   "config.yaml:1:28: optimizer.learning_rate: got '.nan', wanted a number >= 0"},
        WrongValue{"model: {frozen: [a, 1]}",
                   "config.yaml:1:17: model.frozen: got [\"a\",1], wanted a list of texts that are "
                   "not empty, like [a, b]"},
        WrongValue{"model: {config: llama}",
                   "config.yaml:1:17: model.config: got 'llama', wanted a map of config.json keys, "
                   "like {model_type: llama, ...}"},
        WrongValue{"memory: {recompute: sellective}",
                   "config.yaml:1:21: memory.recompute: got 'sellective', wanted one of auto, "
                   "none, selective, full, or by layer like full:20+selective@16384\n"
                   "  Did you mean selective?"},
        WrongValue{"memory: {recompute: true}",
                   "config.yaml:1:21: memory.recompute: got true, wanted one of auto, none, "
                   "selective, full, or by layer like full:20+selective@16384"},
        WrongValue{"data: {too_long: discard}",
                   "config.yaml:1:18: data.too_long: got 'discard', wanted one of error, truncate, "
                   "split, drop"},
        WrongValue{"batch: {order: shuffled}",
                   "config.yaml:1:16: batch.order: got 'shuffled', wanted one of sequential, "
                   "random, group_by_length"},
        WrongValue{"memory: {recompute: checkpointed}",
                   "config.yaml:1:21: memory.recompute: got 'checkpointed', wanted one of "
                   "auto, none, selective, full, or by layer like full:20+selective@16384"},
        WrongValue{"batch: {max_tokens_per_micro_batch: all}",
                   "config.yaml:1:37: batch.max_tokens_per_micro_batch: got 'all', wanted an "
                   "integer from 1 to 2147483647 or auto"},
        WrongValue{"memory: full",
                   "config.yaml:1:9: memory: got 'full', wanted a map of keys\n"
                   "  Keys of memory: recompute, fit, limit_gib, offload."}));

}  // namespace
}  // namespace packtrain
