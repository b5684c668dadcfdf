// memory.offload: a value or a list of values.
#include "framework/config/offload.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

std::optional<Offload> offload_in(const std::string& value) {
  return load("memory: {offload: " + value + "}").memory.offload;
}

TEST(ConfigOffload, IsAValueOrAListInAnyOrder) {
  EXPECT_EQ(load("").memory.offload, std::nullopt);
  EXPECT_EQ(offload_in("auto"), std::nullopt);
  EXPECT_EQ(offload_in("none"), Offload::kNone);
  EXPECT_EQ(offload_in("activations"), Offload::kActivations);
  EXPECT_EQ(offload_in("[optimizer]"), Offload::kOptimizer);
  EXPECT_EQ(offload_in("[optimizer, activations]"), Offload::kActivationsAndOptimizer);
  EXPECT_EQ(offload_in("[]"), Offload::kNone);
}

TEST(ConfigOffload, IsWrittenAsItIsRead) {
  for (const char* value :
       {"auto", "none", "activations", "optimizer", "[optimizer, activations]"}) {
    const Config config = load(std::string("memory: {offload: ") + value + "}");
    EXPECT_EQ(load(dump_config(config)).memory.offload, config.memory.offload) << value;
  }
}

TEST(ConfigOffload, OtherValuesAreRefused) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"weights", "got 'weights', wanted one of auto, none, activations, optimizer"},
      {"[none, optimizer]", "auto and none stand alone"},
      {"[auto, activations]", "auto and none stand alone"},
      {"[optimizer, optimizer]", "wanted optimizer once"},
      {"true", "wanted a list of auto, none, activations, optimizer, or one of them"}};
  for (const auto& [value, text] : faults) {
    const std::string error = load_error("memory: {offload: " + value + "}");
    EXPECT_NE(error.find(text), std::string::npos) << error;
  }
}

TEST(ConfigOffload, ItsTextsAreThoseOfPlanHeaders) {
  for (const bool activations : {false, true}) {
    for (const bool optimizer : {false, true}) {
      const Offload offload = make_offload(activations, optimizer);
      EXPECT_EQ(parse_offload(offload_text(offload)), offload);
      EXPECT_EQ(offloads_activations(offload), activations);
      EXPECT_EQ(offloads_optimizer(offload), optimizer);
    }
  }
  EXPECT_EQ(parse_offload("weights"), std::nullopt);
  EXPECT_FALSE(offloads_activations(std::nullopt) || offloads_optimizer(std::nullopt));
}

}  // namespace
}  // namespace packtrain
