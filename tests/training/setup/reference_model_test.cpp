// The frozen second model of an objective.
#include "training/setup/reference_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/helpers/temporary_folder.h"
#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"

namespace packtrain {
namespace {

constexpr const char* kReference = R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 32,
  "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2})";

Config config_with_reference(const std::string& folder) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  config.objective.reference = ReferenceSource::kModel;
  config.objective.reference_path = folder;
  return config;
}

TEST(ReferenceModel, IsReadOnceForAllMemoryPlans) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "config.json", kReference);
  const Config config = config_with_reference(folder.path());
  const auto bytes = [&](int num_ranks) {
    return MemoryPlanner(config, small_decoder(), {DeviceKind::kCpu, num_ranks})
        .plan({.num_rows = 128})
        .allocated_bytes();
  };
  const std::int64_t first = bytes(1);
  std::filesystem::remove(folder / "config.json");
  EXPECT_EQ(bytes(1), first);
  EXPECT_LT(bytes(2), first);
}

TEST(ReferenceModel, OfOtherSettingsIsAnotherOne) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "config.json", kReference);
  Config config = config_with_reference(folder.path());
  EXPECT_EQ(reference_decoder(config).vocab_size, 512);
  config.model.resize_vocabulary = 600;
  EXPECT_EQ(reference_decoder(config).vocab_size, 600);
}

TEST(ReferenceModel, ThatIsMissingIsNamedEachTime) {
  const Config config = config_with_reference("/no/such/model");
  for (int time = 0; time < 2; ++time) EXPECT_THROW(reference_decoder(config), Error);
}

}  // namespace
}  // namespace packtrain
