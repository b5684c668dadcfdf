#include "training/comparison/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/training/comparison/runs.h"

namespace packtrain {
namespace {

using test::make_run;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Comparison two_strategies(std::uint64_t num_seeds) {
  std::vector<ComparedRun> runs;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    runs.push_back(make_run({.strategy = "padding", .seed = seed, .step_time_s = 2.0}));
    runs.push_back(make_run({.strategy = "balanced", .seed = seed, .evaluate_steps = 8}));
  }
  return compare_runs(runs, 2, {});
}

TEST(ComparisonReport, CsvHasAFigureAndItsSpreadInEachColumn) {
  const auto lines = split(comparison_to_csv(two_strategies(1)), '\n');
  ASSERT_EQ(lines.size(), 4U);  // the last one empty
  const auto keys = split(lines[0], ',');
  const auto balanced = split(lines[2], ',');
  ASSERT_EQ(balanced.size(), keys.size());
  const auto value_of = [&](const std::string& key) {
    return balanced.at(static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin()));
  };
  EXPECT_EQ(value_of("strategy"), "balanced");
  EXPECT_EQ(value_of("speedup"), "4");
  EXPECT_EQ(value_of("speedup_spread"), "0");
  EXPECT_EQ(value_of("validation_loss"), "2");
  EXPECT_EQ(value_of("num_steps"), "8");
}

TEST(ComparisonReport, SaysHowManyLossesWereLeftOut) {
  ComparedRun run = make_run({.strategy = "balanced"});
  run.history.steps.back().loss = std::numeric_limits<double>::quiet_NaN();
  const Comparison comparison = compare_runs({run}, 1, {});
  EXPECT_NE(comparison_to_text(comparison).find("Of balanced, 1 loss was not finite"),
            std::string::npos);
  EXPECT_NE(comparison_to_json(comparison).find("\"num_losses_left_out\":1"), std::string::npos);
}

TEST(ComparisonReport, AFigureThatIsNotKnownIsADash) {
  std::vector<ComparedRun> runs = {make_run({.strategy = "balanced"})};
  const Comparison comparison = compare_runs(runs, 1, {});
  EXPECT_NE(comparison_to_markdown(comparison).find("| balanced | 200 | - |"), std::string::npos);
  EXPECT_NE(comparison_to_csv(comparison).find("balanced,1,200,0,,,"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(comparison_to_json(comparison))
                  .at("strategies")
                  .at(0)
                  .at("speedup")
                  .is_null());
}

TEST(ComparisonReport, MarkdownAndTextHoldTheSameCells) {
  const Comparison comparison = two_strategies(2);
  const auto markdown = split(comparison_to_markdown(comparison), '\n');
  const auto text = split(comparison_to_text(comparison), '\n');
  EXPECT_NE(markdown[3].find("4.00 ± 0.00"), std::string::npos);  // speed-up
  for (const auto& [row, of_text] : {std::pair(0, 0), std::pair(2, 1), std::pair(3, 2)}) {
    auto cells = split(markdown[row], '|');
    for (std::string cell : cells) {
      cell = cell.substr(std::min<std::size_t>(1, cell.size()));
      if (!cell.empty()) cell.pop_back();
      EXPECT_NE(text[of_text].find(cell), std::string::npos) << cell;
    }
  }
}

TEST(ComparisonReport, RowsOfTheTableAreAligned) {
  const auto lines = split(comparison_to_text(two_strategies(2)), '\n');
  const auto width = [](const std::string& line) {
    return std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
  };
  EXPECT_EQ(width(lines[0]), width(lines[1]));
  EXPECT_EQ(width(lines[0]), width(lines[2]));
}

TEST(ComparisonReport, JsonHasTheCurveOfEachRun) {
  const auto json = nlohmann::json::parse(comparison_to_json(two_strategies(2)));
  EXPECT_EQ(json.at("num_ranks"), 2);
  EXPECT_EQ(json.at("equal_steps"), 8);
  ASSERT_EQ(json.at("runs").size(), 4U);
  const auto& evaluations = json.at("runs").at(0).at("evaluations");
  ASSERT_EQ(evaluations.size(), 4U);
  EXPECT_EQ(evaluations.at(1).at("step"), 4);
  EXPECT_EQ(evaluations.at(1).at("device_seconds"), 8.0);
  EXPECT_EQ(evaluations.at(1).at("validation_loss"), 6.0);
}

TEST(ComparisonReport, NamesTheKeyThatVariesAndTheDifferencesOfItsValues) {
  std::vector<ComparedRun> runs;
  for (const std::uint64_t seed : {3U, 4U}) {
    runs.push_back(make_run({.strategy = "[0.9,0.95]", .seed = seed}));
    const double loss = 2.25 + static_cast<double>(seed) / 64;
    runs.push_back(make_run({.strategy = "[0.9,0.99]", .seed = seed, .final_loss = loss}));
  }
  const Comparison comparison = compare_runs(runs, 1, {.key = "optimizer.betas"});
  const std::string text = comparison_to_text(comparison);
  EXPECT_EQ(split(text, ' ').front(), "optimizer.betas");
  EXPECT_NE(text.find("minus [0.9,0.95]"), std::string::npos) << text;
  EXPECT_NE(text.find("validation loss"), std::string::npos);
  EXPECT_NE(text.find("+0.30469"), std::string::npos) << text;
  EXPECT_NE(comparison_to_csv(comparison).find("\n\"[0.9,0.99]\",2,"), std::string::npos);
  const auto json = nlohmann::json::parse(comparison_to_json(comparison));
  EXPECT_EQ(json.at("key"), "optimizer.betas");
  const auto& difference = json.at("strategies").at(1).at("difference_to_first");
  EXPECT_NEAR(difference.at("validation_loss").at("mean").get<double>(), 0.3046875, 1e-12);
  EXPECT_EQ(difference.at("validation_loss").at("num_pairs"), 2);
  EXPECT_TRUE(difference.at("joules").is_null());
}

TEST(ComparisonReport, SaysThatEnergyWasNotMeasured) {
  EXPECT_NE(comparison_to_text(two_strategies(1)).find("Energy was not measured"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain
