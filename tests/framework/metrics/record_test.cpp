// Tests how a record is written: as a JSON line, and as lines for people.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/metrics/json_line.h"
#include "framework/metrics/metrics.h"
#include "framework/metrics/step_line.h"
#include "tests/framework/metrics/distinct_record.h"

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

// The line of the design: its keys, in order.
ordered_json line_of(const StepRecord& r) {
  return {{"step", r.step},
          {"epoch", r.epoch},
          {"loss", r.loss},
          {"grad_norm", r.grad_norm},
          {"learning_rate", r.learning_rate},
          {"num_examples", r.num_examples},
          {"num_tokens", r.num_tokens},
          {"num_loss_tokens", r.num_loss_tokens},
          {"num_padding_tokens", r.num_padding_tokens},
          {"num_skipped_steps", r.num_skipped_steps},
          {"num_out_of_memory", r.num_out_of_memory},
          {"step_time_s", r.step_time_s},
          {"tokens_per_second", r.tokens_per_second},
          {"tokens_per_second_per_device", r.tokens_per_second_per_device},
          {"model_tflops_per_device", r.model_tflops_per_device},
          {"mfu", r.mfu},
          {"padding_fraction", r.padding_fraction},
          {"fill", r.fill},
          {"token_imbalance", r.token_imbalance},
          {"cost_imbalance", r.cost_imbalance},
          {"forward_s", r.forward_s},
          {"backward_s", r.backward_s},
          {"optimizer_s", r.optimizer_s},
          {"data_wait_s", r.data_wait_s},
          {"gather_wait_s", r.gather_wait_s},
          {"reduce_wait_s", r.reduce_wait_s},
          {"comm_wait_s", r.comm_wait_s},
          {"checkpoint_wait_s", r.checkpoint_wait_s},
          {"num_failed_saves", r.num_failed_saves},
          {"checkpoint_step", r.checkpoint_step},
          {"checkpoint_unix_time_s", r.checkpoint_unix_time_s},
          {"checkpoint_duration_s", r.checkpoint_duration_s},
          {"peak_memory_bytes", r.peak_memory_bytes},
          {"allocated_memory_bytes", r.allocated_memory_bytes},
          {"reserved_memory_bytes", r.reserved_memory_bytes},
          {"communication_memory_bytes", r.communication_memory_bytes},
          {"num_allocation_retries", r.num_allocation_retries},
          {"num_unwritten_lines", r.num_unwritten_lines},
          {"slowest_rank", r.slowest_rank},
          {"slowest_ratio", r.slowest_ratio}};
}

TEST(StepJsonLine, HasTheKeysOfTheDesignInOrder) {
  EXPECT_EQ(keys_of(step_json_line({})), keys_of(line_of({}).dump()));
}

TEST(StepJsonLine, KeepsEveryValueExactly) {
  const StepRecord r = distinct_record();
  EXPECT_EQ(ordered_json::parse(step_json_line(r)), line_of(r));
}

TEST(StepJsonLine, NamesThePhaseOfTheSlowestRankOnceRanksWereCompared) {
  StepRecord record = distinct_record();
  record.slowest_phase = "compute";
  EXPECT_EQ(ordered_json::parse(step_json_line(record))["slowest_phase"], "compute");
}

TEST(StepJsonLine, HasLossesBySourceOnlyWhereThereAreSome) {
  StepRecord record = distinct_record();
  EXPECT_FALSE(ordered_json::parse(step_json_line(record)).contains("loss_by_source"));
  record.loss_by_source = {{"web", 2.5}, {"a \"b\"", kNan}};
  const ordered_json expected = {{"web", 2.5}, {"a \"b\"", nullptr}};
  EXPECT_EQ(ordered_json::parse(step_json_line(record))["loss_by_source"], expected);
}

TEST(StepJsonLine, HasStatisticsOnlyOfAnObjectiveOfGroups) {
  StepRecord record = distinct_record();
  EXPECT_FALSE(ordered_json::parse(step_json_line(record)).contains("objective"));
  EXPECT_FALSE(ordered_json::parse(step_json_line(record)).contains("num_groups"));
  record.num_groups = 3;
  record.objective = {{"reward_margin", 0.25}, {"reward_accuracy", 0.5}};
  const ordered_json line = ordered_json::parse(step_json_line(record));
  const ordered_json expected = {{"reward_margin", 0.25}, {"reward_accuracy", 0.5}};
  EXPECT_EQ(line["objective"], expected);
  EXPECT_EQ(line["num_groups"], 3);
}

TEST(EvaluationJsonLine, HasStatisticsInPlaceOfAPerplexityForGroups) {
  EvaluationRecord record = {.step = 4, .loss = 0.5, .num_groups = 7};
  record.objective = {{"reward_accuracy", 0.75}};
  record.set = "pairs";
  record.all_sets = {record};
  const ordered_json line = ordered_json::parse(evaluation_json_line(record));
  EXPECT_FALSE(line.contains("validation_perplexity"));
  EXPECT_EQ(line["validation_num_groups"], 7);
  EXPECT_EQ(line["validation_objective"]["reward_accuracy"], 0.75);
  EXPECT_FALSE(line["validation_sets"]["pairs"].contains("perplexity"));
  EXPECT_EQ(line["validation_sets"]["pairs"]["objective"]["reward_accuracy"], 0.75);
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

TEST(EvaluationJsonLine, HasTheNumbersOfEveryNamedSet) {
  const EvaluationRecord code = {.step = 5,
                                 .loss = 2.5,
                                 .perplexity = 12.2,
                                 .num_examples = 3,
                                 .num_tokens = 40,
                                 .num_loss_tokens = 30,
                                 .set = "code"};
  EvaluationRecord chat = code;
  chat.set = "chat";
  chat.loss = 1.5;
  chat.loss_by_source = {{"web", 1.25}};
  EvaluationRecord record = chat;
  record.all_sets = {code, chat};
  const ordered_json line = ordered_json::parse(evaluation_json_line(record));
  EXPECT_EQ(line["validation_loss"], 1.5) << "of the set that decides";
  EXPECT_EQ(line["validation_set"], "chat");
  const ordered_json expected_code = {{"loss", 2.5},
                                      {"perplexity", 12.2},
                                      {"num_examples", 3},
                                      {"num_tokens", 40},
                                      {"num_loss_tokens", 30}};
  EXPECT_EQ(line["validation_sets"]["code"], expected_code);
  EXPECT_EQ(line["validation_sets"]["chat"]["loss_by_source"]["web"], 1.25);
}

TEST(CommandLine, HasTheNumbersInTheirOrder) {
  EXPECT_EQ(command_json_line({.step = 4, .values = {{"b", 0.5}, {"a", 2}}}),
            R"({"step":4,"evaluate_command":{"b":0.5,"a":2.0}})");
}

TEST(EvaluationJsonLine, HasLossesBySourceUnderAKeyOfItsOwn) {
  const std::string line = evaluation_json_line({.loss_by_source = {{"web", 2.5}, {"code", 1.5}}});
  const ordered_json expected = {{"web", 2.5}, {"code", 1.5}};
  EXPECT_EQ(ordered_json::parse(line)["validation_loss_by_source"], expected);
}

TEST(StepJsonLine, ReportsExpertsOnlyWhereThereAreSome) {
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

TEST(StepJsonLine, ReportsTheHessianEstimateOnlyWhereItIsUpdated) {
  StepRecord record = distinct_record();
  EXPECT_FALSE(ordered_json::parse(step_json_line(record)).contains("unclipped_fraction"));
  record.hessian = HessianRecord{.grad_norm = 0.5, .unclipped_fraction = 0.25, .num_skipped = 1};
  const ordered_json line = ordered_json::parse(step_json_line(record));
  EXPECT_EQ(line["hessian_grad_norm"], 0.5);
  EXPECT_EQ(line["unclipped_fraction"], 0.25);
  EXPECT_EQ(line["hessian_num_skipped"], 1);
}

TEST(StepLine, IsShortAndComplete) {
  EXPECT_EQ(format_step_line(distinct_record(), 400, 194),
            "step 12/400 (3.0 %)  loss 3.214  norm 0.91  lr 9.8e-06  24.0k tok/s  mfu 41.2 %  "
            "fill 97 %  imbalance 12.5 %  comm 4.0 %  mem 65.2 GiB  3 min 14 s left");
}

TEST(StepLine, HasTheAccuracyAndTheMarginOfPairs) {
  StepRecord record = distinct_record();
  record.objective = {{"reward_chosen", 1}, {"reward_margin", 0.3125}, {"reward_accuracy", 0.75}};
  EXPECT_EQ(format_step_line(record, 0, -1, 60),
            "step 12  loss 3.214  accuracy 0.75  margin 0.312");
}

TEST(StepLine, LeavesOutWhatIsUnknown) {
  StepRecord record = distinct_record();
  record.mfu = 0;
  record.peak_memory_bytes = 0;
  record.comm_wait_s = 1e-5;
  record.cost_imbalance = 1;
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
