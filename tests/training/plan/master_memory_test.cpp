// The planned memory of master weights (precision.master), and of Adafactor's second moments.
#include <gtest/gtest.h>

#include <string_view>

#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"

namespace packtrain::test {
namespace {

std::int64_t planned(const Config& config, std::string_view name) {
  const MemoryPlanner planner(config, small_decoder(/*tied=*/false), {DeviceKind::kCpu, 1});
  std::int64_t bytes = 0;
  for (const MemoryEntry& entry : planner.plan({.num_rows = 128}).allocated) {
    if (entry.name == name) bytes += entry.bytes;
  }
  return bytes;
}

TEST(MasterMemory, InBFloat16IsHalfAndHasNoOtherCopy) {
  const Config wide;
  Config narrow;
  narrow.precision.master = Precision::kBFloat16;
  EXPECT_EQ(2 * planned(narrow, "master weights"), planned(wide, "master weights"));
  EXPECT_EQ(planned(narrow, "master weights"), planned(wide, "weights"));
  EXPECT_EQ(planned(narrow, "weights"), 0);
}

TEST(AdafactorMemory, HasSumsAndLessStateThanAdamW) {
  const Config adamw;
  Config adafactor;
  adafactor.optimizer.name = "adafactor";
  EXPECT_GT(planned(adafactor, "matrices"), 0);
  EXPECT_EQ(planned(adamw, "matrices"), 0);
  EXPECT_LE(2 * planned(adafactor, "moments"), planned(adamw, "moments"));
}

}  // namespace
}  // namespace packtrain::test
