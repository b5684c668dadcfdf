// Overrides of keys below model.config.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;

TEST(ModelConfigKeys, AnOverrideChangesOneKeyOfTheMap) {
  TemporaryFolder folder;
  test::write_bytes(folder / "a.yaml", "model: {config: {model_type: llama, hidden_size: 64}}\n");
  const std::vector<std::string> overrides = {"model.config.hidden_size=32",
                                              "model.config.rope_parameters.factor=2.5"};
  EXPECT_EQ(load_config(folder / "a.yaml", overrides).model.config,
            R"({"model_type":"llama","hidden_size":32,"rope_parameters":{"factor":2.5}})");
}

std::string error_of_overrides(const std::vector<std::string>& overrides) {
  TemporaryFolder folder;
  test::write_bytes(folder / "a.yaml", "run: {seed: 1}\n");
  try {
    load_config(folder / "a.yaml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 64);
    return error.what();
  }
  return "";
}

TEST(ModelConfigKeys, NeedAMapToBeIn) {
  EXPECT_EQ(error_of_overrides({"model.config.hidden_size=32"}),
            "command line: model.config.hidden_size=32: 'model.config.hidden_size', but "
            "model.config is not given\n  It changes one key of a model.config that is there.");
  EXPECT_NE(error_of_overrides({"model.config={hidden_size: 3}", "model.config.hidden_size.x=32"})
                .find("wanted a key of a map, or an index within a list, in model.config"),
            std::string::npos);
}

// An index that is not there would make a list as long: of petabytes, in a file found by fuzzing.
TEST(ModelConfigKeys, AnIndexChangesWhatAListHasAndMakesNoList) {
  TemporaryFolder folder;
  test::write_bytes(folder / "a.yaml", "model: {config: {kinds: [a, b]}}\n");
  const std::vector<std::string> overrides = {"model.config.kinds.1=c", "model.config.new.0=d"};
  EXPECT_EQ(load_config(folder / "a.yaml", overrides).model.config,
            R"({"kinds":["a","c"],"new":{"0":"d"}})");
  for (const char* index : {"2", "900000000000000", "-", "01", "x"}) {
    EXPECT_NE(error_of_overrides({"model.config={kinds: [a, b]}",
                                  "model.config.kinds." + std::string(index) + "=c"})
                  .find("wanted a key of a map, or an index within a list, in model.config"),
              std::string::npos)
        << index;
  }
}

}  // namespace
}  // namespace packtrain
