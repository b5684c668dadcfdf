#include "training/comparison/energy_log.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "tests/helpers/temporary_folder.h"

namespace packtrain::energy_log_test {
namespace {

// Adds ten joules at each reading.
class CountingMeter final : public EnergyMeter {
 public:
  double joules() override { return sum_ += 10; }

 private:
  double sum_ = 0;
};

RankMeter counting() {
  return {.meter = std::make_unique<CountingMeter>(), .is_measured = true};
}

TEST(EnergyLogs, OfAllRanksAddUpByStep) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "energy-rank-0.jsonl",
                    "{\"step\":0,\"joules\":5}\n{\"step\":0,\"joules\":5}\n"
                    "{\"step\":4,\"joules\":40}\n");
  test::write_bytes(folder / "energy-rank-1.jsonl",
                    "{\"step\":0,\"joules\":1}\n{\"step\":2,\"joules\":2}\n"
                    "{\"step\":4,\"joules\":3}\n{\"st");
  const std::vector<CurvePoint> curve = read_energy(folder.path(), 2);
  ASSERT_EQ(curve.size(), 3U);
  EXPECT_DOUBLE_EQ(curve[0].y, 11);
  EXPECT_DOUBLE_EQ(curve[1].x, 2);
  EXPECT_DOUBLE_EQ(curve[1].y, 10 + 20 + 3);
  EXPECT_DOUBLE_EQ(curve[2].y, 50 + 6);
}

TEST(EnergyLogs, WithoutAFileOrAValueOfARankMeasureNothing) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "energy-rank-0.jsonl", "{\"step\":0,\"joules\":5}\n");
  EXPECT_EQ(read_energy(folder.path(), 1).size(), 1U);
  EXPECT_TRUE(read_energy(folder.path(), 2).empty());
  test::write_bytes(folder / "energy-rank-1.jsonl", "{\"step\":0,\"joules\":null}\n");
  EXPECT_TRUE(read_energy(folder.path(), 2).empty());
}

TEST(EnergyLogs, NameTheNewestStepAndContinueAfterAResume) {
  const test::TemporaryFolder folder;
  {
    const EnergyLog log(folder.path(), 0, counting());
  }
  const double before = read_energy(folder.path(), 1).back().y;
  EXPECT_GE(before, 10);
  test::write_bytes(folder / "metrics.jsonl",
                    "{\"step\":6,\"grad_norm\":1}\n{\"step\":7,\"grad_norm\":1}\n{\"step\":8");
  {
    const EnergyLog log(folder.path(), 0, counting());
  }
  const std::vector<CurvePoint> curve = read_energy(folder.path(), 1);
  EXPECT_DOUBLE_EQ(curve.back().x, 7);
  EXPECT_GT(curve.back().y, before);
}

TEST(EnergyLogs, ForgetTheSumsOfStepsThatAResumedRunDoesAgain) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "energy-rank-0.jsonl",
                    "{\"step\":2,\"joules\":10}\n{\"step\":5,\"joules\":10}\n"
                    "{\"step\":3,\"joules\":10}\n{\"step\":6,\"joules\":10}\n");
  const std::vector<CurvePoint> curve = read_energy(folder.path(), 1);  // step 5 is not kept
  ASSERT_EQ(curve.size(), 3U);
  EXPECT_DOUBLE_EQ(curve[1].x, 3);
  EXPECT_DOUBLE_EQ(curve[1].y, 30);
  EXPECT_DOUBLE_EQ(curve[2].y, 40);
}

TEST(EnergyLogs, WriteNothingWithoutAMeasurement) {
  const test::TemporaryFolder folder;
  {
    const EnergyLog log(folder.path(), 0, RankMeter{});
  }
  EXPECT_TRUE(read_energy(folder.path(), 1).empty());
}

}  // namespace
}  // namespace packtrain::energy_log_test
