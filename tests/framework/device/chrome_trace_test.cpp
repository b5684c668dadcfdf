#include "framework/device/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace packtrain {
namespace {

using nlohmann::json;

constexpr std::int64_t kOrigin = 1'800'000'000'000'000'000;

TimelineSpan span(const std::string& row, const std::string& name, std::int64_t begin_ns = 0,
                  std::int64_t end_ns = 0, TimelineDetails details = {}) {
  return {row, name, "range", kOrigin + begin_ns, kOrigin + end_ns, std::move(details)};
}

json trace(const std::vector<TimelineSpan>& spans, int rank = 3) {
  return json::parse(chrome_trace(spans, {rank, "rank 3 on node7, cpu", kOrigin}));
}

json boxes(const json& trace) {
  json found = json::array();
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") found.push_back(event);
  }
  return found;
}

// Names and numbers of rows.
std::map<std::string, int> rows(const json& trace) {
  std::map<std::string, int> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") found[event["args"]["name"]] = event["tid"];
  }
  return found;
}

TEST(ChromeTrace, GivesTimesInMicrosecondsAfterTheOriginToTheNanosecond) {
  const json found = trace(
      {span("compute", "forward", 1'234'567, 2'000'001), span("compute", "early", -1'500, 7)});
  EXPECT_EQ(boxes(found)[0]["ts"], 1234.567);
  EXPECT_EQ(boxes(found)[0]["dur"], 765.434);
  EXPECT_EQ(boxes(found)[1]["ts"], -1.5);
  EXPECT_EQ(found["otherData"]["origin_unix_ns"], kOrigin);
}

TEST(ChromeTrace, IsOneProcessNumberedAsTheRank) {
  const json found = trace({span("compute", "a"), span("gather", "b")});
  for (const json& event : found["traceEvents"]) EXPECT_EQ(event["pid"], 3);
  EXPECT_EQ(found["traceEvents"][0]["name"], "process_name");
  EXPECT_EQ(found["traceEvents"][0]["args"]["name"], "rank 3 on node7, cpu");
}

TEST(ChromeTrace, OrdersRowsHostFirstAndOverflowBelowItsStream) {
  const auto found =
      rows(trace({span("data", ""), span("gather 2", ""), span("reduce", ""), span("gather", ""),
                  span("stream 7", ""), span("compute", ""), span("host", "")}));
  std::vector<std::string> in_order(found.size());
  for (const auto& [row, number] : found) in_order.at(static_cast<std::size_t>(number)) = row;
  EXPECT_EQ(in_order, (std::vector<std::string>{"host", "compute", "gather", "gather 2", "reduce",
                                                "data", "stream 7"}));
}

TEST(ChromeTrace, EscapesNamesAndReplacesWhatIsNoUtf8) {
  const std::string odd = "a \"b\"\\c\n\x01";
  const json found = boxes(trace({span(odd, odd, 0, 1, {{odd, odd}}), span("x", "\xff")}));
  EXPECT_EQ(found[0]["name"], odd);
  EXPECT_EQ(found[0]["args"][odd], odd);
  EXPECT_EQ(found[1]["name"], "\xEF\xBF\xBD");
  EXPECT_FALSE(found[1].contains("args"));
}

TEST(ChromeTrace, OfNothingIsATraceToo) {
  EXPECT_TRUE(boxes(trace({})).empty());
}

}  // namespace
}  // namespace packtrain
