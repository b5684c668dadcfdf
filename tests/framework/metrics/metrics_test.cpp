#include "framework/metrics/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/metrics/json_line.h"
#include "framework/metrics/listen_socket.h"
#include "tests/framework/metrics/full_disk.h"
#include "tests/framework/metrics/http_client.h"
#include "tests/framework/metrics/temporary_folder.h"

namespace packtrain {
namespace {

using nlohmann::json;

MetricsOptions options_in(const TemporaryFolder& folder) {
  MetricsOptions options;
  options.port = 0;
  options.run_folder = folder.path();
  options.run_name = "flan";
  options.host = "node7";
  options.total_steps = 100;
  return options;
}

StepRecord record_of(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 1.0 / static_cast<double>(step);
  record.num_tokens = 10;
  return record;
}

std::string metrics_text(const TemporaryFolder& folder) {
  return read_text(folder.file("metrics.jsonl"), ErrorCategory::kInternal);
}

void write_file(const std::string& path, std::string_view text) {
  write_text_atomically(path, text, ErrorCategory::kInternal);
}

std::vector<std::int64_t> steps_in(const std::string& text) {
  std::vector<std::int64_t> steps;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    steps.push_back(json::parse(text.substr(begin, end - begin))["step"].get<std::int64_t>());
    begin = end + 1;
  }
  return steps;
}

TEST(Metrics, WritesALineAStepAndAnEvaluation) {
  const TemporaryFolder folder;
  const auto metrics = Metrics::start(options_in(folder));
  metrics->step(record_of(1));
  metrics->step(record_of(2));
  metrics->evaluation({.step = 2, .loss = 2.5});
  EXPECT_EQ(metrics_text(folder), step_json_line(record_of(1)) + "\n" +
                                      step_json_line(record_of(2)) + "\n" +
                                      evaluation_json_line({.step = 2, .loss = 2.5}) + "\n")
      << "while the run continues, not only after it";
}

TEST(Metrics, ServesTheReportedValues) {
  const TemporaryFolder folder;
  const auto metrics = Metrics::start(options_in(folder));
  metrics->step(record_of(4));
  const HttpAnswer answer = request(metrics->endpoint().value(), "GET", "/metrics");
  EXPECT_EQ(metric_value(answer.body, "packtrain_step"), 4);
  EXPECT_EQ(metric_value(answer.body, "packtrain_loss"), 0.25);
  EXPECT_NE(answer.body.find(R"(packtrain_loss{host="node7",rank="0",run="flan"})"),
            std::string::npos);
}

TEST(Metrics, SaysWhyTheRunIsNotWell) {
  const TemporaryFolder folder;
  MetricsOptions options = options_in(folder);
  std::atomic<bool> overdue = false;
  options.trouble = [&overdue] { return overdue ? "overdue" : ""; };
  const auto metrics = Metrics::start(options);
  const auto health = [&] { return request(metrics->endpoint().value(), "GET", "/healthz"); };
  EXPECT_EQ(health().status, 200);
  overdue = true;
  EXPECT_EQ(health().body, "overdue\n");
  overdue = false;
  EXPECT_EQ(health().status, 200);
  metrics->end(RunState::kFailed, "the loss is nan", 0);
  EXPECT_EQ(health().status, 503);
  EXPECT_EQ(health().body, "the loss is nan\n");
}

TEST(Metrics, ARunThatIsDoneIsWell) {
  const TemporaryFolder folder;
  const auto metrics = Metrics::start(options_in(folder));
  metrics->end(RunState::kDone, "", 0);
  EXPECT_EQ(request(metrics->endpoint().value(), "GET", "/healthz").status, 200);
  const std::string page = request(metrics->endpoint().value(), "GET", "/metrics").body;
  EXPECT_NE(page.find(R"(state="done"} 1)"), std::string::npos) << page;
}

TEST(Metrics, EndsImmediatelyWithoutAnEndpoint) {
  const TemporaryFolder folder;
  MetricsOptions options = options_in(folder);
  options.serve = false;
  Metrics::start(options)->end(RunState::kDone, "", 3600);
}

TEST(Metrics, LeavesTheFileToRankZero) {
  const TemporaryFolder folder;
  MetricsOptions options = options_in(folder);
  options.rank = 1;
  const auto metrics = Metrics::start(options);
  metrics->step(record_of(1));
  metrics->evaluation({.step = 1});
  EXPECT_FALSE(std::filesystem::exists(folder.file("metrics.jsonl")));
  EXPECT_TRUE(metrics->endpoint().has_value());
}

TEST(Metrics, HasNoEndpointWhenNotAsked) {
  const TemporaryFolder folder;
  MetricsOptions options = options_in(folder);
  options.serve = false;
  EXPECT_EQ(Metrics::start(options)->endpoint(), std::nullopt);
}

TEST(Metrics, WarnsAndContinuesWithoutAFreePort) {
  const TemporaryFolder folder;
  const std::string address = own_loopback();
  const auto taken = ListenSocket::open(address, 65535);
  MetricsOptions options = options_in(folder);
  options.address = address;
  options.port = 65535;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto metrics = Metrics::start(options);
  const std::string output =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_NE(output.find("no metrics endpoint"), std::string::npos) << output;
  EXPECT_EQ(metrics->endpoint(), std::nullopt);
  metrics->step(record_of(1));
  EXPECT_EQ(steps_in(metrics_text(folder)), std::vector<std::int64_t>{1});
}

TEST(Metrics, APortBeyondTheLastIsNoFreePort) {
  const TemporaryFolder folder;
  MetricsOptions options = options_in(folder);
  options.port = 65536;  // the second rank of a host with metrics.port 65535
  EXPECT_EQ(Metrics::start(options)->endpoint(), std::nullopt);
}

TEST(Metrics, NeverShowsHalfAStepToConcurrentScrapers) {
  const TemporaryFolder folder;
  const auto metrics = Metrics::start(options_in(folder));
  metrics->step(record_of(1));
  std::atomic<bool> done = false;
  std::atomic<int> num_scrapes = 0;
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&] {
      while (!done) {
        const std::string page = request(*metrics->endpoint(), "GET", "/metrics").body;
        EXPECT_EQ(metric_value(page, "packtrain_tokens_total"),
                  10 * metric_value(page, "packtrain_step"));
        ++num_scrapes;
      }
    });
  }
  for (int step = 2; num_scrapes < 50; ++step) metrics->step(record_of(step));
  done = true;
  for (std::thread& scraper : scrapers) scraper.join();
}

TEST(Metrics, CutsTheStepsAfterTheOneResumedFrom) {
  const TemporaryFolder folder;
  {
    const auto metrics = Metrics::start(options_in(folder));
    for (int step = 1; step <= 5; ++step) metrics->step(record_of(step));
    metrics->evaluation({.step = 3});
    metrics->evaluation({.step = 4});
  }
  MetricsOptions options = options_in(folder);
  options.first_step = 3;
  const auto metrics = Metrics::start(options);
  EXPECT_EQ(steps_in(metrics_text(folder)), (std::vector<std::int64_t>{1, 2, 3, 3}));
  metrics->step(record_of(4));
  EXPECT_EQ(steps_in(metrics_text(folder)), (std::vector<std::int64_t>{1, 2, 3, 3, 4}));
}

TEST(Metrics, StartsANewRunWithAnEmptyFile) {
  const TemporaryFolder folder;
  Metrics::start(options_in(folder))->step(record_of(1));
  const auto metrics = Metrics::start(options_in(folder));
  EXPECT_EQ(metrics_text(folder), "");
}

TEST(Metrics, CutsALineThatACrashLeftIncomplete) {
  const TemporaryFolder folder;
  write_file(folder.file("metrics.jsonl"), "{\"step\":1}\nnot json\n[]\n{\"loss\":2}\n{\"step\":1");
  MetricsOptions options = options_in(folder);
  options.first_step = 2;
  const auto metrics = Metrics::start(options);
  metrics->step(record_of(3));
  EXPECT_EQ(steps_in(metrics_text(folder)), (std::vector<std::int64_t>{1, 3}));
}

TEST(Metrics, KeepsAFileWithNothingToCutAsItIs) {
  const TemporaryFolder folder;
  const std::string text = "{\"step\": 1, \"by\": \"hand\"}\n";
  write_file(folder.file("metrics.jsonl"), text);
  MetricsOptions options = options_in(folder);
  options.first_step = 1;
  const auto metrics = Metrics::start(options);
  EXPECT_EQ(metrics_text(folder), text);
}

TEST(Metrics, CountsTheLinesThatAFullDiskDoesNotTake) {
  const TemporaryFolder folder;
  const auto metrics = Metrics::start(options_in(folder));
  const FullDisk disk(1);
  metrics->step(record_of(1));
  metrics->step(record_of(2));
  metrics->evaluation({.step = 2, .loss = 2.5});
  metrics->step(record_of(3));
  const HttpAnswer answer = request(metrics->endpoint().value(), "GET", "/metrics");
  EXPECT_EQ(metric_value(answer.body, "packtrain_step"), 3);
  EXPECT_EQ(metric_value(answer.body, "packtrain_unwritten_lines"), 3) << "before step 3";
}

TEST(Metrics, NamesAFileThatCannotBeWritten) {
  const TemporaryFolder folder;
  MetricsOptions options = options_in(folder);
  options.run_folder = folder.file("missing");
  try {
    Metrics::start(options);
    FAIL() << "a missing run folder was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_NE(error.message().find("missing/metrics.jsonl"), std::string::npos);
  }
}

TEST(Metrics, RefusesAnAddressBeforeItCutsTheFile) {
  const TemporaryFolder folder;
  Metrics::start(options_in(folder))->step(record_of(1));
  MetricsOptions options = options_in(folder);
  options.address = "localhost";
  EXPECT_THROW(Metrics::start(options), Error);
  EXPECT_EQ(steps_in(metrics_text(folder)), std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace packtrain
