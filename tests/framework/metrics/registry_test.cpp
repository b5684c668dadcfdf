// Tests how a record is shown on the Prometheus page.
#include "framework/metrics/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include "framework/metrics/fields.h"
#include "tests/framework/metrics/distinct_record.h"
#include "tests/framework/metrics/http_client.h"

namespace packtrain {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

MetricsRegistry labelled_registry() {
  MetricsOptions options;
  options.run_name = "flan";
  options.host = "node7";
  options.rank = 3;
  options.total_steps = 400;
  options.num_restarts = 2;
  options.facts = {{"strategy", "balanced"}};
  options.planned_memory_bytes = {{"weights", 1000}, {"activations", 500}};
  return MetricsRegistry(options);
}

// "name{host=...,`label`} value" stands in the page.
bool has_sample(const std::string& page, const std::string& name, const std::string& label,
                const std::string& value) {
  const std::string fixed = R"({host="node7",rank="3",run="flan",)";
  return page.find("\n" + name + fixed + label + "} " + value + "\n") != std::string::npos;
}

TEST(MetricsRegistry, ShowsTheLatestStepInGauges) {
  MetricsRegistry registry = labelled_registry();
  StepRecord record = distinct_record();
  registry.step({});
  registry.step(record);
  const std::string page = registry.page();
  EXPECT_EQ(metric_value(page, "packtrain_step"), 12);
  EXPECT_DOUBLE_EQ(metric_value(page, "packtrain_loss"), record.loss);
  EXPECT_EQ(metric_value(page, "packtrain_step_time_seconds"), 0.5);
  EXPECT_EQ(metric_value(page, "packtrain_mfu_ratio"), 0.412);
  EXPECT_EQ(metric_value(page, "packtrain_cost_imbalance_ratio"), 1.125);
  EXPECT_EQ(metric_value(page, "packtrain_peak_memory_bytes"), 70e9);
}

TEST(MetricsRegistry, AddsUpCountersOverSteps) {
  MetricsRegistry registry = labelled_registry();
  registry.step(distinct_record());
  registry.step(distinct_record());
  const std::string page = registry.page();
  EXPECT_EQ(metric_value(page, "packtrain_steps_total"), 2);
  EXPECT_EQ(metric_value(page, "packtrain_examples_total"), 128);
  EXPECT_EQ(metric_value(page, "packtrain_tokens_total"), 24'000);
  EXPECT_EQ(metric_value(page, "packtrain_loss_tokens_total"), 18'000);
  EXPECT_DOUBLE_EQ(metric_value(page, "packtrain_gather_wait_seconds_total"), 0.025);
  EXPECT_DOUBLE_EQ(metric_value(page, "packtrain_reduce_wait_seconds_total"), 0.015);
  EXPECT_DOUBLE_EQ(metric_value(page, "packtrain_comm_wait_seconds_total"), 0.04);
  EXPECT_NE(page.find("# TYPE packtrain_tokens_total counter"), std::string::npos);
  EXPECT_NE(page.find("# TYPE packtrain_loss gauge"), std::string::npos);
}

TEST(MetricsRegistry, ReportsFlopsInBaseUnits) {
  MetricsRegistry registry = labelled_registry();
  registry.step(distinct_record());
  EXPECT_DOUBLE_EQ(metric_value(registry.page(), "packtrain_model_flops_per_second_per_device"),
                   321.5e12);
}

TEST(MetricsRegistry, CountsStepsByTheirDuration) {
  MetricsRegistry registry = labelled_registry();
  for (const double seconds : {0.005, 0.5, 0.5, 1e6}) {
    StepRecord record = distinct_record();
    record.step_time_s = seconds;
    registry.step(record);
  }
  const std::string page = registry.page();
  const std::string name = "packtrain_step_duration_seconds_bucket";
  EXPECT_TRUE(has_sample(page, name, R"(le="0.01")", "1")) << page;
  EXPECT_TRUE(has_sample(page, name, R"(le="0.64")", "3")) << page;
  EXPECT_TRUE(has_sample(page, name, R"(le="+Inf")", "4")) << page;
  EXPECT_EQ(metric_value(page, "packtrain_step_duration_seconds_count"), 4);
}

TEST(MetricsRegistry, SaysWhichStateTheRunIsIn) {
  MetricsRegistry registry = labelled_registry();
  const std::string name = "packtrain_run_state";
  EXPECT_TRUE(has_sample(registry.page(), name, R"(state="running")", "1")) << registry.page();
  EXPECT_TRUE(has_sample(registry.page(), name, R"(state="failed")", "0"));
  registry.set_state(RunState::kFailed);
  EXPECT_TRUE(has_sample(registry.page(), name, R"(state="running")", "0"));
  EXPECT_TRUE(has_sample(registry.page(), name, R"(state="failed")", "1"));
}

TEST(MetricsRegistry, SaysWhatTheRunIs) {
  const std::string page = labelled_registry().page();
  EXPECT_EQ(metric_value(page, "packtrain_planned_steps"), 400);
  EXPECT_EQ(metric_value(page, "packtrain_restarts_total"), 2);
  EXPECT_NE(
      page.find(R"(packtrain_run_info{host="node7",rank="3",run="flan",strategy="balanced"} 1)"),
      std::string::npos)
      << page;
  const std::string name = "packtrain_planned_memory_bytes";
  EXPECT_TRUE(has_sample(page, name, R"(purpose="weights")", "1000")) << page;
  EXPECT_TRUE(has_sample(page, name, R"(purpose="activations")", "500"));
}

TEST(MetricsRegistry, ShowsTheLossOfEachNamedSet) {
  MetricsRegistry registry = labelled_registry();
  EXPECT_EQ(registry.page().find("set=\""), std::string::npos);
  registry.evaluation({.loss = 1.5,
                       .set = "chat",
                       .all_sets = {{.loss = 2.5, .set = "code"}, {.loss = 1.5, .set = "chat"}}});
  const std::string name = "packtrain_validation_loss_by_set";
  EXPECT_TRUE(has_sample(registry.page(), name, R"(set="code")", "2.5")) << registry.page();
  EXPECT_TRUE(has_sample(registry.page(), name, R"(set="chat")", "1.5"));
  EXPECT_EQ(metric_value(registry.page(), "packtrain_validation_loss"), 1.5);
}

TEST(MetricsRegistry, ShowsTheLatestNumberOfACommandByName) {
  MetricsRegistry registry = labelled_registry();
  registry.command({.step = 4, .values = {{"gsm8k \"strict\"", 0.25}, {"length", 8}}});
  registry.command({.step = 8, .values = {{"length", 9}}});
  const std::string name = "packtrain_evaluate_command";
  EXPECT_TRUE(has_sample(registry.page(), name, R"(name="gsm8k \"strict\"")", "0.25"))
      << registry.page();
  EXPECT_TRUE(has_sample(registry.page(), name, R"(name="length")", "9"));
}

TEST(MetricsRegistry, KeepsACounterThatMetANanCounting) {
  MetricsRegistry registry = labelled_registry();
  StepRecord record = distinct_record();
  registry.step(record);
  record.data_wait_s = kNotANumber;
  registry.step(record);
  EXPECT_DOUBLE_EQ(metric_value(registry.page(), "packtrain_data_wait_seconds_total"), 0.003);
}

TEST(MetricsRegistry, IsUnknownNotZeroBeforeTheFirstStep) {
  const std::string page = labelled_registry().page();
  EXPECT_TRUE(std::isnan(metric_value(page, "packtrain_loss")));
  EXPECT_TRUE(std::isnan(metric_value(page, "packtrain_validation_loss")));
  EXPECT_EQ(metric_value(page, "packtrain_steps_total"), 0);
  EXPECT_GT(metric_value(page, "packtrain_last_step_timestamp_seconds"), 1.7e9);
}

TEST(MetricsRegistry, ShowsTheLatestEvaluation) {
  MetricsRegistry registry = labelled_registry();
  registry.evaluation({.step = 200, .loss = 2.5, .perplexity = 12.25});
  EXPECT_EQ(metric_value(registry.page(), "packtrain_validation_loss"), 2.5);
  EXPECT_EQ(metric_value(registry.page(), "packtrain_validation_perplexity"), 12.25);
}

TEST(MetricsRegistry, ShowsTheLatestLossOfEachSource) {
  MetricsRegistry registry = labelled_registry();
  EXPECT_EQ(registry.page().find("source="), std::string::npos);
  StepRecord record = distinct_record();
  record.loss_by_source = {{"web", 2.5}, {"code", 1.5}};
  registry.step(record);
  record.loss_by_source = {{"web", 2.25}};
  registry.step(record);
  registry.evaluation({.loss_by_source = {{"web", 3.5}}});
  const std::string page = registry.page();
  const auto has = [&](const std::string& name, const std::string& source, const char* value) {
    return has_sample(page, name, "source=\"" + source + "\"", value);
  };
  EXPECT_TRUE(has("packtrain_loss_by_source", "web", "2.25")) << page;
  EXPECT_TRUE(has("packtrain_loss_by_source", "code", "1.5")) << page;
  EXPECT_TRUE(has("packtrain_validation_loss_by_source", "web", "3.5")) << page;
}

TEST(MetricsRegistry, ShowsTheLatestStatisticsOfTheObjective) {
  MetricsRegistry registry = labelled_registry();
  StepRecord record = distinct_record();
  record.objective = {{"reward_margin", 0.25}, {"reward_accuracy", 0.5}};
  registry.step(record);
  EvaluationRecord evaluated;
  evaluated.objective = {{"reward_margin", 0.75}};
  registry.evaluation(evaluated);
  const std::string page = registry.page();
  EXPECT_TRUE(has_sample(page, "packtrain_objective", "name=\"reward_margin\"", "0.25")) << page;
  EXPECT_TRUE(has_sample(page, "packtrain_objective", "name=\"reward_accuracy\"", "0.5")) << page;
  EXPECT_TRUE(has_sample(page, "packtrain_validation_objective", "name=\"reward_margin\"", "0.75"))
      << page;
}

TEST(MetricsRegistry, CountsTheTokensOfEachExpert) {
  MetricsRegistry registry = labelled_registry();
  EXPECT_EQ(registry.page().find("expert=\""), std::string::npos);
  StepRecord record = distinct_record();
  record.experts = {.tokens = {12, 4}, .max = 1.5, .min = 0.5, .auxiliary_loss = 2.25};
  registry.step(record);
  registry.step(record);
  const std::string page = registry.page();
  EXPECT_NE(page.find("expert=\"0\"} 24\n"), std::string::npos) << page;
  EXPECT_NE(page.find("expert=\"1\"} 8\n"), std::string::npos) << page;
  EXPECT_EQ(metric_value(page, "packtrain_expert_load_max_ratio"), 1.5);
  EXPECT_EQ(metric_value(page, "packtrain_expert_load_min_ratio"), 0.5);
  EXPECT_EQ(metric_value(page, "packtrain_auxiliary_loss"), 2.25);
}

TEST(MetricsRegistry, LabelsEverySampleWithRunHostAndRank) {
  MetricsRegistry registry = labelled_registry();
  registry.step(distinct_record());
  const std::string page = registry.page();
  std::int64_t num_samples = 0;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = page.find('\n', begin);
    const std::string line = page.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('#')) continue;
    ++num_samples;
    EXPECT_TRUE(line.starts_with("packtrain_")) << line;
    for (const char* label : {"run=\"flan\"", "host=\"node7\"", "rank=\"3\""}) {
      EXPECT_NE(line.find(label), std::string::npos) << line;
    }
  }
  // The fields, steps, timestamp, 2 of the evaluation, 36 of the histogram, 4 states, bad lines,
  // steps planned, restarts, 2 purposes of memory, build, run.
  EXPECT_EQ(num_samples, std::ssize(step_fields()) + 1 + 1 + 2 + 36 + 4 + 3 + 2 + 2);
  EXPECT_EQ(metric_value(page, "packtrain_build_info"), 1);
  EXPECT_NE(page.find(",version=\""), std::string::npos);
}

TEST(MetricsRegistry, EscapesLabels) {
  MetricsOptions options;
  options.run_name = "a \"b\"\\c\nd";
  MetricsRegistry registry(options);
  EXPECT_NE(registry.page().find(R"(run="a \"b\"\\c\nd")"), std::string::npos);
}

}  // namespace
}  // namespace packtrain
