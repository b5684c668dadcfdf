// Sweep files: which runs they stand for, and what is refused.
#include "framework/config/sweep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;

constexpr const char* kBase = "model: {config: {model_type: llama, hidden_size: 64}}\n";

// A folder with the configurations a.yaml and b.yaml, and a sweep over a.yaml and what is added.
class SweepText {
 public:
  explicit SweepText(const std::string& more, const std::string& options = "") {
    test::write_bytes(folder_ / "a.yaml", kBase);
    test::write_bytes(folder_ / "b.yaml", std::string(kBase) + "run: {seed: 7}\n");
    test::write_bytes(folder_ / "s.yaml", "sweep: {configs: " + (folder_ / "a.yaml") +
                                              ", output: out" + options + "}\n" + more);
  }

  Sweep load(const std::vector<std::string>& overrides = {}) const {
    return load_sweep(folder_ / "s.yaml", overrides);
  }

  // The text of the error that loading must end in, without the folder.
  std::string error(const std::vector<std::string>& overrides = {}) const {
    try {
      load(overrides);
    } catch (const Error& failure) {
      EXPECT_EQ(failure.exit_code(), 64);
      std::string text = failure.what();
      for (std::size_t at; (at = text.find(folder_ / "")) != std::string::npos;) {
        text.erase(at, std::string(folder_ / "").size());
      }
      return text;
    }
    ADD_FAILURE() << "loaded without an error";
    return "";
  }

  std::string file(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
};

TEST(Sweep, AProductIsEveryCombinationTheLastKeyFirst) {
  const Sweep sweep = SweepText(
                          "settings: {run.max_steps: 5}\n"
                          "product: {batch.strategy: [padding, balanced], run.seed: [1, 2, 3]}\n")
                          .load();
  ASSERT_EQ(sweep.runs.size(), 6U);
  EXPECT_EQ(sweep.columns, (std::vector<std::string>{"batch.strategy", "run.seed"}));
  std::vector<std::vector<std::string>> values;
  for (const SweepRun& run : sweep.runs) {
    values.push_back(run.values);
    EXPECT_EQ(run.config.run.max_steps, 5);
  }
  EXPECT_EQ(values, (std::vector<std::vector<std::string>>{{"padding", "1"},
                                                           {"padding", "2"},
                                                           {"padding", "3"},
                                                           {"balanced", "1"},
                                                           {"balanced", "2"},
                                                           {"balanced", "3"}}));
  EXPECT_EQ(sweep.runs[4].config.batch.strategy, Strategy::kBalanced);
  EXPECT_EQ(sweep.runs[4].config.run.seed, 2U);
}

TEST(Sweep, SettingsOfAListGoTogether) {
  const Sweep sweep = SweepText(
                          "list:\n"
                          "  - {batch.global_batch_size: 16, optimizer.learning_rate: 1e-4}\n"
                          "  - {batch.global_batch_size: 64}\n"
                          "product: {run.seed: [1, 2]}\n")
                          .load();
  std::vector<std::vector<std::string>> values;
  for (const SweepRun& run : sweep.runs) values.push_back(run.values);
  EXPECT_EQ(sweep.columns, (std::vector<std::string>{"batch.global_batch_size",
                                                     "optimizer.learning_rate", "run.seed"}));
  const std::string default_rate = config_value(Config(), "optimizer.learning_rate");
  EXPECT_EQ(values, (std::vector<std::vector<std::string>>{
                        {"16", config_value(sweep.runs[0].config, "optimizer.learning_rate"), "1"},
                        {"16", config_value(sweep.runs[0].config, "optimizer.learning_rate"), "2"},
                        {"64", default_rate, "1"},
                        {"64", default_rate, "2"}}));
  EXPECT_NEAR(sweep.runs[0].config.optimizer.learning_rate, 1e-4, 1e-12);
}

TEST(Sweep, SeveralConfigurationsAreAColumn) {
  const SweepText text("product: {batch.strategy: [padding, balanced]}\n");
  const Sweep sweep =
      text.load({"sweep.configs=[" + text.file("a.yaml") + "," + text.file("b.yaml") + "]"});
  ASSERT_EQ(sweep.runs.size(), 4U);
  EXPECT_EQ(sweep.columns, (std::vector<std::string>{"config", "batch.strategy"}));
  EXPECT_EQ(sweep.runs[1].values, (std::vector<std::string>{"a", "balanced"}));
  EXPECT_EQ(sweep.runs[2].values, (std::vector<std::string>{"b", "padding"}));
  EXPECT_EQ(sweep.runs[2].config.run.seed, 7U);
}

TEST(Sweep, KeysBelowModelConfigAreVariedToo) {
  const Sweep sweep =
      SweepText(
          "settings: {model.config.rope_scaling.factor: 8}\n"
          "product: {model.config.hidden_size: [32, 64], model.config.num_hidden_layers: [2]}\n")
          .load();
  ASSERT_EQ(sweep.runs.size(), 2U);
  EXPECT_EQ(sweep.runs[0].values, (std::vector<std::string>{"32", "2"}));
  EXPECT_EQ(sweep.runs[0].config.model.config,
            R"({"model_type":"llama","hidden_size":32,"rope_scaling":{"factor":8},)"
            R"("num_hidden_layers":2})");
}

TEST(Sweep, RunsHaveFoldersOfTheirOwnWhichOnlyTheirSettingsDecide) {
  const SweepText text("product: {optimizer.learning_rate: [1e-3, 1e-4]}\n");
  const Sweep first = text.load();
  const Sweep longer = text.load({"optimizer.learning_rate=[1e-5,1e-4]", "sweep.at_once=2"});
  const Sweep changed = text.load({"run.max_steps=3"});
  const Sweep elsewhere = text.load({"sweep.output=there"});
  const Sweep more_ranks = text.load({"sweep.ranks=2"});
  EXPECT_EQ(first.runs[1].config.run.output, longer.runs[1].config.run.output);
  EXPECT_EQ(first.runs[1].config.run.output, "out/runs/" + first.runs[1].name);
  EXPECT_EQ(first.runs[1].name, elsewhere.runs[1].name);
  const std::set<std::string> hashes = {first.runs[0].hash, first.runs[1].hash,
                                        changed.runs[1].hash, more_ranks.runs[1].hash};
  EXPECT_EQ(hashes.size(), 4U);
  EXPECT_EQ(first.runs[0].name.substr(0, 20), "learning_rate=0.001-");
}

TEST(Sweep, NamesAreFitForFolders) {
  const Sweep sweep = SweepText(
                          "product: {data.train: [stores/a, ../b c/d], "
                          "optimizer.betas: [[0.9, 0.95], [0.9, 0.99]]}\n")
                          .load();
  std::set<std::string> names;
  for (const SweepRun& run : sweep.runs) {
    names.insert(run.name);
    EXPECT_EQ(run.name.find_first_of("/ \"'[]"), std::string::npos) << run.name;
    EXPECT_LE(run.name.size(), 110U);
  }
  EXPECT_EQ(names.size(), 4U);
}

TEST(Sweep, OverridesReplaceListsOrAreSettingsOfAll) {
  const SweepText text("settings: {run.max_steps: 5}\nproduct: {run.seed: [1, 2]}\n");
  const Sweep sweep =
      text.load({"run.seed=[4,5,6]", "run.max_steps=9", "batch.strategy=padding", "run.seed=3"});
  ASSERT_EQ(sweep.runs.size(), 1U);
  EXPECT_EQ(sweep.runs[0].config.run.seed, 3U);
  EXPECT_EQ(sweep.runs[0].config.run.max_steps, 9);
  EXPECT_EQ(sweep.runs[0].config.batch.strategy, Strategy::kPadding);
}

TEST(Sweep, BaselineAndBestAreRead) {
  const Sweep sweep = SweepText("product: {batch.strategy: [padding, balanced]}\n",
                                ", baseline: {batch.strategy: padding}, best: {highest: mfu}")
                          .load();
  ASSERT_EQ(sweep.baseline.size(), 1U);
  EXPECT_EQ(sweep.baseline[0], (std::pair<std::string, std::string>{"batch.strategy", "padding"}));
  EXPECT_EQ(sweep.file.best_figure, "mfu");
  EXPECT_FALSE(sweep.file.best_is_lowest);
}

TEST(SweepErrors, UnknownSectionsAndKeys) {
  EXPECT_EQ(SweepText("products: {run.seed: [1]}\n").error(),
            "s.yaml:2:1: unknown section 'products'\n  Did you mean product?");
  EXPECT_NE(SweepText("", ", rank: 2").error().find("unknown key 'sweep.rank'\n  Did you mean"),
            std::string::npos);
  EXPECT_EQ(SweepText("product: {batch.stratgy: [padding]}\n").error(),
            "s.yaml:2:11: unknown key 'batch.stratgy'\n  Did you mean batch.strategy?");
  EXPECT_EQ(SweepText("product: {lr: [1]}\n").error(),
            "s.yaml:2:11: got the key 'lr', wanted section.key\n  For example run.max_steps: 100.");
  EXPECT_EQ(SweepText("list: [{run.seeds: 1}]\n").error(),
            "s.yaml:2:1: unknown key 'run.seeds'\n  Did you mean run.seed?");
}

TEST(SweepErrors, ValuesOfTheWrongKind) {
  EXPECT_EQ(SweepText("product: {batch.strategy: [padding, packd]}\n").error().substr(0, 56),
            "s.yaml:2:27: batch.strategy: got 'packd', wanted one of ");
  EXPECT_EQ(SweepText("product: {run.seed: 3}\n").error(),
            "s.yaml:2:21: run.seed: got 3, wanted a list of values\n"
            "  A value that all runs have belongs under settings.");
  EXPECT_EQ(SweepText("product: 3\n").error(), "s.yaml:2:10: product: got 3, wanted a map of keys");
  EXPECT_NE(SweepText("list: [3]\n").error().find("wanted maps of section.key: value"),
            std::string::npos);
  EXPECT_NE(SweepText("list: {run.seed: 1}\n").error().find("wanted a list of maps"),
            std::string::npos);
  EXPECT_NE(SweepText("", ", best: loss").error().find("wanted {lowest: FIGURE}"),
            std::string::npos);
}

TEST(SweepErrors, EmptyLists) {
  EXPECT_EQ(SweepText("product: {run.seed: []}\n").error(),
            "s.yaml:2:21: run.seed: got [], wanted a list of values\n"
            "  A value that all runs have belongs under settings.");
  EXPECT_NE(SweepText("list: []\n").error().find("wanted a list of maps"), std::string::npos);
  EXPECT_EQ(SweepText("").error({"sweep.configs=[]"}),
            "s.yaml: sweep.configs is not given, wanted a configuration file or a list of them");
}

TEST(SweepErrors, Duplicates) {
  EXPECT_EQ(SweepText("product: {run.seed: [1, 2, 1]}\n").error(),
            "s.yaml:2:21: run.seed: the value 1 is given twice\n  Remove one of them.");
  EXPECT_EQ(SweepText("product: {optimizer.learning_rate: [0.001, 1e-3]}\n").error().substr(0, 36),
            "s.yaml:2:36: optimizer.learning_rate");
  EXPECT_EQ(SweepText("product:\n  run.seed: [1]\n  run.seed: [2]\n").error(),
            "s.yaml:4:3: 'run.seed' is given twice, first at s.yaml:3:3");
  EXPECT_EQ(SweepText("settings: {run.seed: 1}\nproduct: {run.seed: [2, 3]}\n").error(),
            "s.yaml:3:21: run.seed is given in settings (s.yaml:2:22) and in product\n"
            "  Keep one of them.");
  EXPECT_NE(
      SweepText("list: [{run.seed: 1}, {run.seed: 1}]\n").error().find("runs 1 and 2 (seed=1-"),
      std::string::npos);
  const SweepText text("");
  EXPECT_NE(text.error({"sweep.configs=[" + text.file("a.yaml") + "," + text.file("a.yaml") + "]"})
                .find("a.yaml is given twice"),
            std::string::npos);
}

TEST(SweepErrors, TheSweepSetsTheRunsFolders) {
  EXPECT_EQ(SweepText("settings: {run.output: x}\n").error(),
            "s.yaml:2:12: run.output is set by the sweep, a folder for each run\n"
            "  Set sweep.output, which these folders are in.");
}

TEST(SweepErrors, ABaselineThatNoRunHas) {
  const std::string product = "product: {batch.strategy: [padding, balanced]}\n";
  EXPECT_NE(SweepText(product, ", baseline: {run.seed: 1}")
                .error()
                .find("sweep.baseline: run.seed is not varied\n  Varied are: batch.strategy."),
            std::string::npos);
  EXPECT_NE(SweepText(product, ", baseline: {batch.strategy: multipack}")
                .error()
                .find("sweep.baseline: no run has batch.strategy: multipack\n"
                      "  Runs have: balanced, padding."),
            std::string::npos);
}

TEST(SweepErrors, SettingsThatContradictEachOtherNameTheRun) {
  EXPECT_EQ(SweepText("product: {data.max_length: [128, 32768]}\n").error().substr(0, 47),
            "the run of a, data.max_length = 32768: data.max");
}

TEST(SweepErrors, TooManyRuns) {
  std::string values = "0";
  for (int k = 1; k < 150; ++k) values.append(",").append(std::to_string(k));
  EXPECT_NE(SweepText("product: {run.seed: [" + values + "], fault.rank: [" + values + "]}\n")
                .error()
                .find("more than 10000 runs"),
            std::string::npos);
}

TEST(SweepErrors, AMissingConfigurationIsNamed) {
  EXPECT_NE(SweepText("").error({"sweep.configs=nowhere.yaml"}).find("nowhere.yaml"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain
