// Files, overrides and settings that contradict each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

TEST(ConfigFile, AMissingOneIsAConfigurationError) {
  try {
    load_config("/does/not/exist.yaml");
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 64);
    EXPECT_NE(error.message().find("/does/not/exist.yaml"), std::string::npos);
  }
}

TEST(ConfigFile, AFolderIsRefusedWithTheRunsOwnConfiguration) {
  const test::TemporaryFolder folder;
  const auto advice = [&] {
    const Error error = test::error_of([&] { load_config(folder.path()); });
    EXPECT_EQ(error.message(), folder.path() + ": is a folder, wanted a configuration file (YAML)");
    return error.advice();
  };
  EXPECT_NE(advice().find("packtrain config"), std::string::npos);
  test::write_bytes(folder / "config.yaml", "run: {seed: 1}");
  EXPECT_EQ(advice(), "Give the run's own one, " + (folder / "config.yaml") + ".");
}

TEST(ConfigFile, OnlySectionsAreTaken) {
  EXPECT_EQ(load_error("[1, 2]"),
            "config.yaml:1:1: wanted sections, each a map of keys (section: {key: value})");
  EXPECT_EQ(load_error("run: {seed: 1}\n---\nrun: {seed: 2}\n"),
            "config.yaml:2:1: a second YAML document; wanted one");
}

TEST(ConfigFile, AnchorsAliasesAndTagsAreRefused) {
  EXPECT_NE(load_error("run: {output: &a b}").find("anchor"), std::string::npos);
  EXPECT_NE(load_error("run: {output: *a}").find("config.yaml:1:"), std::string::npos);
  EXPECT_NE(load_error("run: {output: !!str 1}").find("tag"), std::string::npos);
}

TEST(ConfigFile, NestingWithoutEndIsAnErrorNotACrash) {
  load_error("model: {config: " + std::string(100'000, '[') + "}");
  std::string flow = "model: {config: ";
  flow.append(31, '[').append(31, ']').append("}");
  EXPECT_NE(load_error(flow).find("nesting deeper than 32 levels"), std::string::npos);
  std::string block = "model:";
  for (std::size_t depth = 1; depth < 40; ++depth)
    block.append("\n").append(depth, ' ').append("a:");
  EXPECT_NE(load_error(block).find("nesting deeper than 32 levels"), std::string::npos);
}

TEST(ConfigFile, ListsSideBySideAreNoDeeperThanOne) {
  std::string text = "model: {config: {";
  for (int list = 0; list < 1000; ++list) text += fmt::format("key_{}: [1, [2]], ", list);
  text += "last: 1}}";
  EXPECT_NE(load(text).model.config.find("key_999"), std::string::npos);
}

TEST(ConfigFile, IsUtf8AndNoDataFile) {
  EXPECT_NE(load_error("run: {output: \xFF}").find("is not UTF-8 at its byte 14"),
            std::string::npos);
  EXPECT_NE(load_error("model: {frozen: [\"\\_\"]}").find("config.yaml:1:18: an escape"),
            std::string::npos);
  std::string large = "run: {output: ";
  large.append(1U << 20U, 'a').append("}");
  EXPECT_NE(load_error(large).find("1048576"), std::string::npos);
}

TEST(ConfigOverrides, ApplyInOrderOverTheFile) {
  const Config config = load(
      "run: {seed: 1}\ndata: {validation: a}",
      {"run.seed=2", "run.seed=3", "optimizer.betas=[0.5, 0.6]",
       "model.config={model_type: llama, hidden_size: 64}", "data.validation=", "run.output=a=b"});
  EXPECT_EQ(config.run.seed, 3U);
  EXPECT_EQ(config.optimizer.betas, (std::array{0.5, 0.6}));
  EXPECT_EQ(config.model.config, R"({"model_type":"llama","hidden_size":64})");
  EXPECT_TRUE(config.data.validation.empty());
  EXPECT_EQ(config.run.output, "a=b");
}

TEST(ConfigOverrides, AreNamedInErrors) {
  EXPECT_EQ(load_error("", {"run.sed=1"}),
            "command line: run.sed=1: unknown key 'run.sed'\n  Did you mean run.seed?");
  EXPECT_EQ(load_error("", {"run.seed=x"}),
            "command line: run.seed=x: run.seed: got 'x', wanted an integer from 0 to 2^64 - 1");
  EXPECT_EQ(load_error("", {"seed"}),
            "command line: seed: wanted section.key=value, for example run.max_steps=100");
  EXPECT_EQ(load_error("", {"seed=1"}),
            "command line: seed=1: unknown section 'seed'\n  Did you mean run.seed?");
  EXPECT_EQ(load_error("", {"lr=1"}),
            "command line: lr=1: unknown section 'lr'\n"
            "  'lr' is called optimizer.learning_rate here.");
  EXPECT_EQ(load_error("", {"run=1"}),
            "command line: run=1: wanted section.key=value, for example run.max_steps=100");
}

TEST(ConfigChecks, TheLongestExampleMustFitAMicroBatch) {
  EXPECT_EQ(load_error("batch: {max_tokens_per_micro_batch: 2048}"),
            "data.max_length is 4096 (default), but batch.max_tokens_per_micro_batch is 2048 "
            "(config.yaml:1:37): the longest example would fit into no micro-batch\n"
            "  Lower data.max_length or raise batch.max_tokens_per_micro_batch.");
}

TEST(ConfigOverrides, ATokenBudgetThatIsSetIsKeptUnlessMemoryFitIsSetToo) {
  const std::string tokens = "batch.max_tokens_per_micro_batch=8192";
  EXPECT_EQ(load("").memory.fit, MemoryFit::kAuto);
  EXPECT_EQ(load("run: {seed: 1}").memory.fit, MemoryFit::kAuto);
  EXPECT_EQ(load("", {tokens}).memory.fit, MemoryFit::kKeepTokens);
  EXPECT_EQ(load("", {tokens, "memory.fit=auto"}).memory.fit, MemoryFit::kAuto);
  EXPECT_EQ(load("memory: {fit: off}", {tokens}).memory.fit, MemoryFit::kOff);
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{}, {tokens}}) {
    const Config config = load("", overrides);
    EXPECT_EQ(load(dump_config(config)).memory.fit, config.memory.fit);  // every key is set there
  }
}

TEST(ConfigOverrides, RecomputeMayDifferByLayerAndBySize) {
  const auto recompute = [](const std::string& text) {
    return load("", {"memory.recompute=" + text}).memory.recompute;
  };
  EXPECT_EQ(recompute("auto"), std::nullopt);
  EXPECT_EQ(recompute("full"), RecomputeByLayer(Recompute::kFull));
  EXPECT_EQ(recompute("selective:12"),
            RecomputeByLayer(Recompute::kSelective, 12, Recompute::kNone));
  EXPECT_EQ(recompute("full:20+selective"),
            RecomputeByLayer(Recompute::kFull, 20, Recompute::kSelective));
  EXPECT_EQ(recompute("selective:12@16384"),
            RecomputeByLayer(Recompute::kSelective, 12, Recompute::kNone, 16384));
  EXPECT_EQ(recompute_text(*recompute("full:20+selective@16384")), "full:20+selective@16384");
  EXPECT_EQ(recompute_text(*recompute("full@512")), "full@512");
  for (const char* wrong : {"full@", "full@0", "full:3@512", "selective:3+full@512", "full@5x",
                            "full@9999999999", "full:", "full:0", "full:-1", "full:x", "full:99999",
                            "ful:3", "full:3+", "full:3+half", "3", "full+selective"}) {
    EXPECT_NE(load_error("", {std::string("memory.recompute=") + wrong}).find("wanted one of auto"),
              std::string::npos)
        << wrong;
  }
}

TEST(ConfigChecks, Fp32GradientsAreNotRoundedOnTheWire) {
  const std::string error = load_error("", {"precision.compute=fp32"});
  EXPECT_NE(error.find("precision.compute is fp32 (command line: precision.compute=fp32), but "
                       "precision.reduce is bf16 (default)"),
            std::string::npos)
      << error;
  load("precision: {compute: bf16, reduce: fp32}");
}

TEST(ConfigChecks, RefusesBitEqualRunsWhoseBatchesDependOnTimes) {
  const std::string error = load_error("", {"precision.deterministic=true", "batch.cost=measured"});
  EXPECT_NE(error.find("measured times differ from run to run"), std::string::npos) << error;
  load("{precision: {deterministic: true}, batch: {cost: flops}}");
}

TEST(ConfigChecks, EmbeddingsShareASlotOnlyWhereWeightsAreGatheredAgain) {
  const std::string error =
      load_error("", {"parallel.resident_embeddings=false", "parallel.zero_stage=2"});
  EXPECT_NE(error.find("parallel.zero_stage is 2"), std::string::npos) << error;
  load("parallel: {resident_embeddings: false}");
}

TEST(ConfigValues, AccumulationIsAutoUnlessItIsNamed) {
  EXPECT_EQ(load("").parallel.accumulate, std::nullopt);
  EXPECT_EQ(load("parallel: {accumulate: auto}").parallel.accumulate, std::nullopt);
  EXPECT_EQ(load("parallel: {accumulate: local}").parallel.accumulate, Accumulate::kLocal);
  EXPECT_EQ(load("parallel: {accumulate: shard}").parallel.accumulate, Accumulate::kShard);
  EXPECT_EQ(load_error("parallel: {accumulate: once}"),
            "config.yaml:1:24: parallel.accumulate: got 'once', wanted one of auto, shard, local");
}

TEST(ConfigChecks, AStepIsCountedInExamplesOrInTokens) {
  const Config in_tokens = load("batch: {global_batch_tokens: 4096}");
  EXPECT_FALSE(in_tokens.batch.global_batch_size.has_value());
  EXPECT_EQ(load("").batch.global_batch_size, 64);
  EXPECT_EQ(load_error("batch: {global_batch_size: 4, global_batch_tokens: 4096}"),
            "batch.global_batch_size (config.yaml:1:28) and batch.global_batch_tokens "
            "(config.yaml:1:52) are both given, wanted one\n  An optimizer step is that many "
            "examples, or that many tokens; set the other to null.");
}

TEST(ConfigChecks, DropoutIsNoneOrTheConfigs) {
  EXPECT_EQ(load_error("model: {path: a, dropout: 0.1}"),
            "model.dropout is 0.1 (config.yaml:1:27), wanted 0 or null\n  packtrain computes no "
            "dropout; 0 trains a model without the dropouts of its config.");
  EXPECT_EQ(load("model: {path: a, dropout: 0}").model.dropout, 0.0);
  EXPECT_FALSE(load("model: {path: a, dropout: null}").model.dropout.has_value());
}

TEST(ConfigChecks, TokensAreAddedToAModelThatHasWeights) {
  EXPECT_EQ(load("model: {path: a, resize_vocabulary: 7}").model.resize_vocabulary, 7);
  EXPECT_NE(load_error("model: {config: {x: 1}, resize_vocabulary: 7}")
                .find("model.resize_vocabulary is 7"),
            std::string::npos);
}

TEST(ConfigChecks, OnlyRowsCanBeOneSequence) {
  EXPECT_EQ(load_error("batch: {cross_example_attention: true}"),
            "batch.cross_example_attention is true (config.yaml:1:34), but batch.strategy "
            "(default) is not fixed_length\n  Only the rows of strategy fixed_length can be one "
            "sequence; leave it out.");
  load("batch: {cross_example_attention: true, strategy: fixed_length}");
}

TEST(ConfigChecks, RowsCannotGiveExamplesEqualWeights) {
  EXPECT_NE(
      load_error("batch: {strategy: fixed_length, normalize: examples}").find("rows cut examples"),
      std::string::npos);
}

TEST(ConfigChecks, PiecesInPacksCannotGiveExamplesEqualWeights) {
  const std::string packs = "batch: {strategy: multipack, normalize: examples}\n";
  EXPECT_NE(load_error(packs + "data: {too_long: split}").find("packed into two steps"),
            std::string::npos);
  load(packs + "data: {too_long: truncate}");
}

TEST(ConfigChecks, StepsInTokensAreNotGroupedByLength) {
  for (const char* yaml : {"batch: {order: group_by_length, strategy: multipack}",
                           "batch: {order: group_by_length, global_batch_tokens: 4096}"}) {
    EXPECT_NE(load_error(yaml).find("batch.order is group_by_length"), std::string::npos) << yaml;
  }
}

TEST(ConfigChecks, StrategyFileNeedsItsFile) {
  EXPECT_EQ(load_error("batch: {strategy: file}"),
            "batch.strategy is file (config.yaml:1:19), but batch.plan_file is not given\n  Set "
            "batch.plan_file to the file with the steps, which `packtrain plan --write-plan FILE` "
            "or the Python package writes (docs/strategies.md).");
  const std::string file = "batch: {strategy: file, plan_file: p.jsonl}\n";
  EXPECT_EQ(load(dump_config(load(file))).batch.plan_file, "p.jsonl");
  EXPECT_NE(load_error(file + "adapters: [{name: a, rank: 8, train: s}]").find("adapters"),
            std::string::npos);
}

TEST(ConfigChecks, WarmUpMustEnd) {
  load("schedule: {warmup_steps: 10}\nrun: {max_steps: 10}");
  EXPECT_NE(load_error("schedule: {warmup_steps: 11}\nrun: {max_steps: 10}").find("would not end"),
            std::string::npos);
}

TEST(ConfigChecks, EvaluatingNeedsAStore) {
  EXPECT_NE(load_error("run: {evaluate_steps: 5}").find("data.validation"), std::string::npos);
}

TEST(ConfigChecks, TheBestGoByASetThatThereIs) {
  load("data: {validation: {web: a, code: b}}\ncheckpoint: {best_by: code}");
  for (const char* data : {"{validation: {web: a}}", "{validation: a}", "{train: a}"}) {
    const std::string yaml = "data: " + std::string(data) + "\ncheckpoint: {best_by: code}";
    EXPECT_NE(load_error(yaml).find("checkpoint.best_by is code"), std::string::npos) << yaml;
  }
}

TEST(ConfigChecks, EndingEarlyNeedsEvaluations) {
  load("data: {validation: a}\nrun: {early_stopping_patience: 2, evaluate_steps: 5}");
  EXPECT_NE(load_error("data: {validation: a}\nrun: {early_stopping_patience: 2}")
                .find("run.early_stopping_patience is 2"),
            std::string::npos);
}

TEST(ConfigChecks, AModelHasOneOrigin) {
  EXPECT_NE(load_error("model: {path: a, config: {x: 1}}").find("are both given"),
            std::string::npos);
  load("model: {path: a, config: {x: 1}}", {"model.config=null"});
}

TEST(ConfigChecks, TrainingNeedsAStoreAndAModel) {
  EXPECT_THROW(check_for_training(load("model: {path: a}")), Error);
  EXPECT_THROW(check_for_training(load("data: {train: a}")), Error);
  check_for_training(load("model: {path: a}\ndata: {train: a}"));
  check_for_training(load("model: {config: {x: 1}}\ndata: {train: a}"));
}

TEST(ConfigChecks, EvaluatingNeedsNoModelButAStore) {
  EXPECT_THROW(check_for_evaluation(load("model: {path: a}")), Error);
  check_for_evaluation(load("data: {validation: a}"));
}

}  // namespace
}  // namespace packtrain
