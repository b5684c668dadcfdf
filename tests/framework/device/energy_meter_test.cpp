#include "framework/device/energy_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/helpers/temporary_folder.h"

namespace packtrain::energy_meter_test {
namespace {

class CpuEnergy : public ::testing::Test {
 protected:
  void write(const std::string& package, const std::string& microjoules) {
    std::filesystem::create_directories(folder_ / package);
    test::write_bytes(folder_ / (package + "/energy_uj"), microjoules + "\n");
    test::write_bytes(folder_ / (package + "/max_energy_range_uj"), "100000000\n");
  }

  test::TemporaryFolder folder_;
};

TEST_F(CpuEnergy, IsThatOfAllPackagesSinceTheMeterWasMade) {
  write("intel-rapl:0", "5000000");
  write("intel-rapl:1", "1000000");
  write("intel-rapl:0:0", "9");  // the cores of package 0, which package 0 includes
  const auto meter = make_cpu_energy_meter(folder_.path());
  ASSERT_NE(meter, nullptr);
  EXPECT_DOUBLE_EQ(meter->joules(), 0);
  write("intel-rapl:0", "7000000");
  write("intel-rapl:1", "1500000");
  write("intel-rapl:0:0", "1000000");
  EXPECT_DOUBLE_EQ(meter->joules(), 2.5);
}

TEST_F(CpuEnergy, CountsOnWhenACounterBeginsAgain) {
  write("intel-rapl:0", "99000000");
  const auto meter = make_cpu_energy_meter(folder_.path());
  write("intel-rapl:0", "2000000");
  EXPECT_DOUBLE_EQ(meter->joules(), 3);
}

TEST_F(CpuEnergy, IsNotANumberWhenACounterIsGone) {
  write("intel-rapl:0", "1");
  const auto meter = make_cpu_energy_meter(folder_.path());
  std::filesystem::remove(folder_ / "intel-rapl:0/energy_uj");
  EXPECT_TRUE(std::isnan(meter->joules()));
}

TEST_F(CpuEnergy, HasNoMeterWithoutCounters) {
  EXPECT_EQ(make_cpu_energy_meter(folder_.path()), nullptr);
  EXPECT_EQ(make_cpu_energy_meter(folder_ / "absent"), nullptr);
}

TEST(GpuEnergy, HasNoMeterForAGpuThatIsNotThere) {
  EXPECT_EQ(make_gpu_energy_meter("FFFF:FF:1F.0"), nullptr);
}

}  // namespace
}  // namespace packtrain::energy_meter_test
