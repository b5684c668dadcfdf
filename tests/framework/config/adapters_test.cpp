// `adapters`: the settings of each of several adapters.
#include "framework/config/adapters.h"

#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

constexpr const char* kTwo =
    "adapter: {alpha: 7, targets: [q_proj]}\n"
    "optimizer: {learning_rate: 1.0e-3}\n"
    "batch: {global_batch_size: 16}\n"
    "data: {train: a}\n"
    "adapters:\n"
    "  - {name: de, rank: 4, rank_pattern: {q_proj: 2}, train: [{path: b, repeats: 2}]}\n"
    "  - {name: fr, learning_rate: 2.0e-4, global_batch_tokens: 100, schedule: {name: constant}}\n";

TEST(Adapters, EachHasItsOwnSettingsOverThoseOfTheSections) {
  const std::vector<Config> own = adapter_configs(load(kTwo));
  ASSERT_EQ(own.size(), 2U);
  EXPECT_EQ(own[0].adapter.name, "de");
  EXPECT_EQ(own[0].adapter.rank, 4);
  EXPECT_EQ(own[0].adapter.rank_pattern, (std::vector<NumberOfName>{{"q_proj", 2}}));
  EXPECT_EQ(own[0].data.train, (std::vector<TrainStore>{{.path = "b", .repeats = 2}}));
  EXPECT_EQ(own[0].optimizer.learning_rate, 1e-3);
  EXPECT_EQ(own[1].adapter.rank, AdapterSection().rank);
  EXPECT_EQ(own[1].adapter.alpha, 7);
  EXPECT_EQ(own[1].data.train, std::vector<TrainStore>{{.path = "a"}});
  EXPECT_EQ(own[1].optimizer.learning_rate, 2e-4);
  EXPECT_EQ(own[1].batch.global_batch_tokens, 100);
  EXPECT_FALSE(own[1].batch.global_batch_size);
  EXPECT_EQ(own[1].schedule.name, ScheduleKind::kConstant);
  EXPECT_EQ(own[0].schedule.name, ScheduleSection().name);
}

TEST(Adapters, TheConfigurationOfOneIsItsOwn) {
  const Config config = load("adapter: {kind: lora, rank: 3}");
  const std::vector<Config> own = adapter_configs(config);
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(dump_config(own.front()), dump_config(config));
}

TEST(Adapters, AreWrittenAsTheyAreRead) {
  const Config config = load(kTwo);
  const Config again = load(dump_config(config));
  EXPECT_EQ(again.adapters, config.adapters);
  EXPECT_EQ(dump_config(again), dump_config(config));
}

TEST(Adapters, TheCommandLineReplacesAll) {
  const Config config = load(kTwo, {"adapters=[{name: x, rank: 2}, {name: y}]"});
  ASSERT_EQ(config.adapters.size(), 2U);
  EXPECT_EQ(config.adapters[0].name, "x");
  EXPECT_TRUE(load(kTwo, {"adapters=[]"}).adapters.empty());
}

TEST(Adapters, EqualNamesAreRefusedWithThePlace) {
  EXPECT_EQ(load_error("adapters: [{name: a}, {name: a}]"),
            "config.yaml:1:11: adapters: two adapters are named 'a'\n"
            "  Give each a name of its own: initial values and files depend on it.");
}

TEST(Adapters, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(load_error("adapters: [{name: a, rnak: 1}]"),
            "config.yaml:1:11: adapters: 'rnak' of 'a' is no key of an adapter\n"
            "  Did you mean rank?");
}

TEST(Adapters, TheSettingsOfEachMustAgree) {
  const std::string error = load_error(
      "run: {max_steps: 5}\nadapters: [{name: a, schedule: {warmup_steps: 9}}, {name: b}]");
  EXPECT_NE(error.find("adapters: 'a': schedule.warmup_steps is 9"), std::string::npos) << error;
}

TEST(Adapters, OneMayHaveValidationWithoutTheOthers) {
  const Config config =
      load("run: {evaluate_steps: 5}\nadapters: [{name: a}, {name: b, validation: {x: store}}]");
  EXPECT_TRUE(adapter_configs(config)[0].data.validation.empty());
  EXPECT_EQ(adapter_configs(config)[1].data.validation,
            (std::vector<ValidationStore>{{"x", "store"}}));
  EXPECT_NE(load_error("run: {evaluate_steps: 5}\nadapters: [{name: a}, {name: b}]")
                .find("data.validation names no token store"),
            std::string::npos);
}

TEST(Adapters, HaveNoBestStepInCommon) {
  EXPECT_NE(load_error("checkpoint: {keep_best: 2}\n"
                       "adapters: [{name: a, validation: store}, {name: b}]")
                .find("checkpoint.keep_best is not possible with several adapters"),
            std::string::npos);
}

TEST(Adapters, ANameIsThatOfAFolder) {
  EXPECT_NE(load_error("adapter: {kind: lora, name: a/b}").find("adapter.name is 'a/b'"),
            std::string::npos);
  EXPECT_NE(load_error("adapters: [{name: ../x}]").find("is no name"), std::string::npos);
}

TEST(AdapterInit, IsReadAndWritten) {
  for (const char* text : {"default", "gaussian", "pissa", "pissa_niter_0", "pissa_niter_16"}) {
    const std::string yaml = std::string("adapter: {kind: lora, init: ") + text + "}";
    const Config config = load(yaml);
    EXPECT_NE(dump_config(config).find(std::string("init: ") + text), std::string::npos) << text;
    EXPECT_EQ(load(dump_config(config)).adapter.init, config.adapter.init) << text;
  }
  EXPECT_EQ(load("adapter: {kind: lora, init: pissa_niter_16}").adapter.init,
            (LoraInit{LoraInit::Kind::kPissaNiter, 16}));
}

TEST(AdapterInit, OtherValuesAreRefused) {
  for (const char* text : {"pisa", "pissa_niter_", "pissa_niter_-1", "pissa_niter_2x",
                           "pissa_niter_1001", "olora", "3"}) {
    const std::string error = load_error(std::string("adapter: {init: ") + text + "}");
    EXPECT_NE(error.find("adapter.init: got "), std::string::npos) << text << ": " << error;
    EXPECT_NE(error.find("pissa_niter_N with N from 0 to 1000"), std::string::npos) << error;
  }
}

TEST(AdapterInit, LoftqIsForWeightsInNf4) {
  const std::string error = load_error("adapter: {kind: lora, init: loftq}");
  EXPECT_NE(error.find("adapter.init is loftq (config.yaml:1:"), std::string::npos) << error;
  EXPECT_NE(error.find("model.base: nf4"), std::string::npos) << error;
  const std::string over_fp8 = load_error("model: {base: fp8}\nadapter: {kind: lora, init: loftq}");
  EXPECT_NE(over_fp8.find("model.base is fp8"), std::string::npos) << over_fp8;
  EXPECT_EQ(load("model: {base: nf4}\nadapter: {kind: lora, init: loftq}").adapter.init.kind,
            LoraInit::Kind::kLoftq);
}

TEST(AdapterInit, AnAdapterWithValuesHasNoOthers) {
  const std::string error = load_error("adapter: {path: a, init: pissa}");
  EXPECT_NE(error.find("adapter.init is pissa"), std::string::npos) << error;
  EXPECT_NE(error.find("adapter.path"), std::string::npos) << error;
}

TEST(AdapterInit, SeveralAdaptersDoNotSubtractFromTheirWeights) {
  const std::string error = load_error("adapters: [{name: a}, {name: b, init: pissa_niter_2}]");
  EXPECT_NE(error.find("adapter.init: pissa is not possible with several adapters"),
            std::string::npos)
      << error;
}

TEST(AdapterMagnitudes, AreNotOfSeveralAdapters) {
  const std::string error = load_error("adapter: {use_dora: true}\nadapters: [{name: a}]");
  EXPECT_NE(error.find("adapter.use_dora is not possible with several adapters"), std::string::npos)
      << error;
  EXPECT_NE(load_error("adapters: [{name: a, use_dora: true}]")
                .find("'use_dora' of 'a' is no key of an adapter"),
            std::string::npos);
}

TEST(AdapterSection, KnowsTheKeysThatWereSetToTheirDefaults) {
  const auto set_keys = [](const std::string& yaml, const std::vector<std::string>& overrides) {
    return load(yaml, overrides).adapter.set_keys;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(set_keys("{}", {}), Keys{});
  EXPECT_EQ(set_keys("adapter: {path: a, rank: 16}", {"adapter.dropout=0"}),
            (Keys{"adapter.dropout", "adapter.path", "adapter.rank"}));
  const std::string resolved = dump_config(load("adapter: {path: a}"));
  EXPECT_EQ(set_keys(resolved, {}), Keys{});
  EXPECT_EQ(set_keys(resolved, {"adapter.rank=16"}), Keys{"adapter.rank"});
}

}  // namespace
}  // namespace packtrain
