// What becomes of a record: the JSON line, the Prometheus page, the lines people read.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/metrics/json_line.h"
#include "framework/metrics/metrics.h"
#include "framework/metrics/registry.h"
#include "framework/metrics/step_line.h"
#include "tests/metrics/http_client.h"

namespace packtrain {
namespace {

using nlohmann::ordered_json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> keys_of(const std::string& line) {
  std::vector<std::string> keys;
  const ordered_json object = ordered_json::parse(line);
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

// Every field differs from every other, so that mixed-up fields are seen.
StepRecord distinct_record() {
  StepRecord r;
  r.step = 12;
  r.epoch = 1;
  r.loss = 3.2141234567890123;
  r.grad_norm = 0.91;
  r.learning_rate = 9.8e-6;
  r.num_examples = 64;
  r.num_tokens = 12'000;
  r.num_loss_tokens = 9'000;
  r.num_skipped_steps = 1;
  r.step_time_s = 0.5;
  r.tokens_per_second = 24'000;
  r.tokens_per_second_per_device = 6'000;
  r.model_tflops_per_device = 321.5;
  r.mfu = 0.412;
  r.padding_fraction = 0.0625;
  r.fill = 0.97;
  r.token_imbalance = 1.25;
  r.cost_imbalance = 1.125;
  r.data_wait_s = 0.003;
  r.gather_wait_s = 0.0125;
  r.reduce_wait_s = 0.0075;
  r.comm_wait_s = 0.02;
  r.checkpoint_wait_s = 0.75;
  r.num_failed_saves = 2;
  r.checkpoint_step = 8;
  r.peak_memory_bytes = 70'000'000'000;
  r.allocated_memory_bytes = 30'000'000'000;
  r.reserved_memory_bytes = 72'000'000'000;
  return r;
}

TEST(StepJsonLine, HasTheKeysOfTheDesignInOrder) {
  const std::vector<std::string> keys = {"step",
                                         "epoch",
                                         "loss",
                                         "grad_norm",
                                         "learning_rate",
                                         "num_examples",
                                         "num_tokens",
                                         "num_loss_tokens",
                                         "num_skipped_steps",
                                         "step_time_s",
                                         "tokens_per_second",
                                         "tokens_per_second_per_device",
                                         "model_tflops_per_device",
                                         "mfu",
                                         "padding_fraction",
                                         "fill",
                                         "token_imbalance",
                                         "cost_imbalance",
                                         "data_wait_s",
                                         "gather_wait_s",
                                         "reduce_wait_s",
                                         "comm_wait_s",
                                         "checkpoint_wait_s",
                                         "num_failed_saves",
                                         "checkpoint_step",
                                         "peak_memory_bytes",
                                         "allocated_memory_bytes",
                                         "reserved_memory_bytes"};
  EXPECT_EQ(keys_of(step_json_line({})), keys);
}

TEST(StepJsonLine, KeepsEveryValueExactly) {
  const StepRecord r = distinct_record();
  const ordered_json expected = {{"step", r.step},
                                 {"epoch", r.epoch},
                                 {"loss", r.loss},
                                 {"grad_norm", r.grad_norm},
                                 {"learning_rate", r.learning_rate},
                                 {"num_examples", r.num_examples},
                                 {"num_tokens", r.num_tokens},
                                 {"num_loss_tokens", r.num_loss_tokens},
                                 {"num_skipped_steps", r.num_skipped_steps},
                                 {"step_time_s", r.step_time_s},
                                 {"tokens_per_second", r.tokens_per_second},
                                 {"tokens_per_second_per_device", r.tokens_per_second_per_device},
                                 {"model_tflops_per_device", r.model_tflops_per_device},
                                 {"mfu", r.mfu},
                                 {"padding_fraction", r.padding_fraction},
                                 {"fill", r.fill},
                                 {"token_imbalance", r.token_imbalance},
                                 {"cost_imbalance", r.cost_imbalance},
                                 {"data_wait_s", r.data_wait_s},
                                 {"gather_wait_s", r.gather_wait_s},
                                 {"reduce_wait_s", r.reduce_wait_s},
                                 {"comm_wait_s", r.comm_wait_s},
                                 {"checkpoint_wait_s", r.checkpoint_wait_s},
                                 {"num_failed_saves", r.num_failed_saves},
                                 {"checkpoint_step", r.checkpoint_step},
                                 {"peak_memory_bytes", r.peak_memory_bytes},
                                 {"allocated_memory_bytes", r.allocated_memory_bytes},
                                 {"reserved_memory_bytes", r.reserved_memory_bytes}};
  EXPECT_EQ(ordered_json::parse(step_json_line(r)), expected);
}

TEST(StepJsonLine, HasLossesBySourceOnlyWhereThereAreSome) {
  StepRecord record = distinct_record();
  EXPECT_FALSE(ordered_json::parse(step_json_line(record)).contains("loss_by_source"));
  record.loss_by_source = {{"web", 2.5}, {"a \"b\"", kNan}};
  const ordered_json expected = {{"web", 2.5}, {"a \"b\"", nullptr}};
  EXPECT_EQ(ordered_json::parse(step_json_line(record))["loss_by_source"], expected);
}

TEST(StepJsonLine, IsOneLine) {
  EXPECT_EQ(step_json_line(distinct_record()).find('\n'), std::string::npos);
}

TEST(StepJsonLine, WritesNullForWhatIsNotFinite) {
  StepRecord record;
  record.loss = kNan;
  record.grad_norm = kInfinity;
  const ordered_json line = ordered_json::parse(step_json_line(record));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
}

TEST(EvaluationJsonLine, SharesOnlyTheStepWithAStepLine) {
  const std::string line = evaluation_json_line({.step = 200,
                                                 .loss = 2.5,
                                                 .perplexity = 12.2,
                                                 .num_examples = 10,
                                                 .num_tokens = 1000,
                                                 .num_loss_tokens = 900});
  const ordered_json expected = {{"step", 200},
                                 {"validation_loss", 2.5},
                                 {"validation_perplexity", 12.2},
                                 {"validation_num_examples", 10},
                                 {"validation_num_tokens", 1000},
                                 {"validation_num_loss_tokens", 900}};
  EXPECT_EQ(ordered_json::parse(line), expected);
}

TEST(EvaluationJsonLine, HasLossesBySourceUnderAKeyOfItsOwn) {
  const std::string line = evaluation_json_line({.loss_by_source = {{"web", 2.5}, {"code", 1.5}}});
  const ordered_json expected = {{"web", 2.5}, {"code", 1.5}};
  EXPECT_EQ(ordered_json::parse(line)["validation_loss_by_source"], expected);
}

MetricsRegistry labelled_registry() {
  return MetricsRegistry({{"run", "flan"}, {"host", "node7"}, {"rank", "3"}});
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

TEST(MetricsRegistry, KeepsACounterThatMetANanCounting) {
  MetricsRegistry registry = labelled_registry();
  StepRecord record = distinct_record();
  registry.step(record);
  record.data_wait_s = kNan;
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
    const std::string wanted = name + R"({host="node7",rank="3",run="flan",source=")" + source;
    return page.find(wanted + "\"} " + value + "\n") != std::string::npos;
  };
  EXPECT_TRUE(has("packtrain_loss_by_source", "web", "2.25")) << page;
  EXPECT_TRUE(has("packtrain_loss_by_source", "code", "1.5")) << page;
  EXPECT_TRUE(has("packtrain_validation_loss_by_source", "web", "3.5")) << page;
}

TEST(StepJsonLine, TellsOfExpertsOnlyWhereThereAreSome) {
  StepRecord record = distinct_record();
  record.experts = ExpertLoad{.tokens = {12, 4}, .max = 1.5, .min = 0.5, .auxiliary_loss = {}};
  ordered_json line = ordered_json::parse(step_json_line(record));
  EXPECT_EQ(line["expert_tokens"], (ordered_json{12, 4}));
  EXPECT_EQ(line["expert_load_max"], 1.5);
  EXPECT_EQ(line["expert_load_min"], 0.5);
  EXPECT_FALSE(line.contains("auxiliary_loss"));
  record.experts->auxiliary_loss = 2.25;
  EXPECT_EQ(ordered_json::parse(step_json_line(record))["auxiliary_loss"], 2.25);
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
  int num_samples = 0;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = page.find('\n', begin);
    const std::string line = page.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("#")) continue;
    ++num_samples;
    EXPECT_TRUE(line.starts_with("packtrain_")) << line;
    for (const char* label : {"run=\"flan\"", "host=\"node7\"", "rank=\"3\""}) {
      EXPECT_NE(line.find(label), std::string::npos) << line;
    }
  }
  EXPECT_EQ(num_samples, 33);  // 28 fields, steps, timestamp, 2 of the evaluation, build
  EXPECT_EQ(metric_value(page, "packtrain_build_info"), 1);
  EXPECT_NE(page.find(",version=\""), std::string::npos);
}

TEST(MetricsRegistry, EscapesLabels) {
  MetricsRegistry registry(std::map<std::string, std::string>{{"run", "a \"b\"\\c\nd"}});
  EXPECT_NE(registry.page().find(R"(run="a \"b\"\\c\nd")"), std::string::npos);
}

TEST(StepLine, IsShortAndComplete) {
  EXPECT_EQ(format_step_line(distinct_record(), 400, 194),
            "step 12/400 (3.0 %)  loss 3.214  norm 0.91  lr 9.8e-06  24.0k tok/s  mfu 41.2 %  "
            "fill 97 %  comm 4.0 %  mem 65.2 GiB  3 min 14 s left");
}

TEST(StepLine, LeavesOutWhatIsUnknown) {
  StepRecord record = distinct_record();
  record.mfu = 0;
  record.peak_memory_bytes = 0;
  record.comm_wait_s = 1e-5;
  EXPECT_EQ(format_step_line(record, 0, 194),
            "step 12  loss 3.214  norm 0.91  lr 9.8e-06  24.0k tok/s  fill 97 %");
  EXPECT_EQ(format_step_line(record, 400, -1).find("left"), std::string::npos);
  EXPECT_EQ(format_step_line(record, 400, kNan).find("left"), std::string::npos);
}

TEST(StepLine, ShowsANonFiniteLoss) {
  StepRecord record;
  record.loss = kNan;
  EXPECT_NE(format_step_line(record, 10, 1).find("loss nan"), std::string::npos);
}

TEST(EvaluationLine, NamesTheValidationNumbers) {
  EXPECT_EQ(format_evaluation_line({.step = 200,
                                    .loss = 2.5,
                                    .perplexity = 12.18,
                                    .num_examples = 1500,
                                    .num_tokens = 120'000}),
            "step 200  validation loss 2.500  perplexity 12.18  1.50k examples  120k tokens");
}

TEST(ShortCount, KeepsThreeDigits) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(999.7), "1.00k");
  EXPECT_EQ(short_count(12'345), "12.3k");
  EXPECT_EQ(short_count(99'990), "100k");
  EXPECT_EQ(short_count(999'700), "1.00M");
  EXPECT_EQ(short_count(4.56e9), "4.56G");
  EXPECT_EQ(short_count(7.8e12), "7800G");
  EXPECT_EQ(short_count(kInfinity), "inf");
}

TEST(ShortDuration, ShowsTheTwoLargestUnits) {
  EXPECT_EQ(short_duration(0.4), "0 s");
  EXPECT_EQ(short_duration(59.4), "59 s");
  EXPECT_EQ(short_duration(59.6), "1 min 00 s");
  EXPECT_EQ(short_duration(185), "3 min 05 s");
  EXPECT_EQ(short_duration(2 * 3600 + 5 * 60 + 59), "2 h 05 min");
  EXPECT_EQ(short_duration(27 * 3600), "1 d 03 h");
}

}  // namespace
}  // namespace packtrain
