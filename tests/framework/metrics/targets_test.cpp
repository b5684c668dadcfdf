// Tests the file in which Prometheus finds a run's ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/metrics/metrics.h"
#include "tests/framework/metrics/temporary_folder.h"

namespace packtrain {
namespace {

using nlohmann::json;

json targets_of(const std::vector<std::string>& endpoints, const std::vector<std::string>& hosts) {
  const TemporaryFolder folder;
  write_metrics_targets(folder.path(), "flan \"1\"", endpoints, hosts);
  return json::parse(read_text(folder.file("metrics-targets.json"), ErrorCategory::kInternal));
}

TEST(MetricsTargets, IsOneGroupARankAsFileSdWantsIt) {
  EXPECT_EQ(targets_of({"127.0.0.1:19400", "[::1]:19402"}, {"node1", "node2"}), json::parse(R"([
    {"targets": ["127.0.0.1:19400"], "labels": {"run": "flan \"1\"", "host": "node1", "rank": "0"}},
    {"targets": ["[::1]:19402"], "labels": {"run": "flan \"1\"", "host": "node2", "rank": "1"}}])"));
}

TEST(MetricsTargets, LeavesOutRanksWithoutAnEndpoint) {
  const json groups = targets_of({"", "127.0.0.1:19401"}, {"node1", "node1"});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0]["labels"]["rank"], "1");
  EXPECT_EQ(targets_of({""}, {"node1"}), json::array());
}

TEST(MetricsTargets, NamesTheHostWhereARankListensEverywhere) {
  const json groups = targets_of({"0.0.0.0:19400", "[::]:19401"}, {"node1", "node2"});
  EXPECT_EQ(groups[0]["targets"][0], "node1:19400");
  EXPECT_EQ(groups[1]["targets"][0], "node2:19401");
}

TEST(MetricsTargets, AreGoneWhenTheRunIsOver) {
  const TemporaryFolder folder;
  write_metrics_targets(folder.path(), "flan", {"127.0.0.1:1"}, {"node1"});
  remove_metrics_targets(folder.path(), "flan");
  EXPECT_EQ(read_text(folder.file("metrics-targets.json"), ErrorCategory::kInternal), "[]\n");
}

// While it lives, the site's folder for targets.
class SharedTargets {
 public:
  explicit SharedTargets(const std::string& folder) {
    setenv("PACKTRAIN_TARGETS_FOLDER", folder.c_str(), 1);
  }
  ~SharedTargets() { unsetenv("PACKTRAIN_TARGETS_FOLDER"); }
};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(MetricsTargets, AreInTheSitesFolderWhileTheRunContinues) {
  const TemporaryFolder run;
  const TemporaryFolder other_run;
  const TemporaryFolder site;
  const SharedTargets shared(site.path());
  write_metrics_targets(run.path(), "flan", {"127.0.0.1:1"}, {"node1"});
  write_metrics_targets(run.path(), "flan", {"127.0.0.1:2"}, {"node1"});  // started again
  const std::vector<std::string> names = files_in(site.path());
  ASSERT_EQ(names.size(), 1U);
  EXPECT_TRUE(names.front().starts_with("flan-") && names.front().ends_with(".json"));
  EXPECT_EQ(read_text(site.file(names.front()), ErrorCategory::kInternal),
            read_text(run.file("metrics-targets.json"), ErrorCategory::kInternal));
  write_metrics_targets(other_run.path(), "flan", {"127.0.0.1:3"}, {"node1"});
  EXPECT_EQ(files_in(site.path()).size(), 2U) << "another run of the same name";
  remove_metrics_targets(other_run.path(), "flan");
  EXPECT_EQ(files_in(site.path()), names);
}

TEST(MetricsTargets, ASitesFolderThatIsMissingCostsAWarning) {
  const TemporaryFolder run;
  const SharedTargets shared(run.file("missing"));
  testing::internal::CaptureStdout();
  write_metrics_targets(run.path(), "flan", {"127.0.0.1:1"}, {"node1"});
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_NE(output.find("PACKTRAIN_TARGETS_FOLDER"), std::string::npos) << output;
  EXPECT_TRUE(std::filesystem::exists(run.file("metrics-targets.json")));
  remove_metrics_targets(run.path(), "flan");
}

TEST(MetricsTargets, ARunFolderThatCannotBeWrittenCostsAWarning) {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  testing::internal::CaptureStdout();
  write_metrics_targets(missing, "run", {"127.0.0.1:1"}, {"node1"});
  remove_metrics_targets(missing, "run");
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_NE(output.find("Prometheus will not find this run by its folder"), std::string::npos)
      << output;
  EXPECT_NE(output.find("Prometheus will ask for the ended run"), std::string::npos) << output;
}

TEST(MetricsTargets, WantsAHostARank) {
  EXPECT_THROW(targets_of({"127.0.0.1:1", ""}, {"node1"}), Error);
}

}  // namespace
}  // namespace packtrain
