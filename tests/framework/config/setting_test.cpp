// Errors in the text of a configuration have a place.
#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

TEST(ConfigFile, SyntaxErrorsHaveAPlace) {
  const std::string error = load_error("run:\n  seed: [1, 2\nmodel: {}\n");
  EXPECT_EQ(error.substr(0, 12), "config.yaml:") << error;
  EXPECT_NE(error.find("YAML syntax: "), std::string::npos) << error;
}

TEST(ConfigFile, TabsInFrontOfAKeyAreNamed) {
  const std::string error = load_error("run:\n  seed: 1\ndata:\n\tmax_length: 5\n");
  EXPECT_EQ(error,
            "config.yaml:4:1: got a tab in front of a key, wanted spaces\n"
            "  YAML takes no tabs there.");
}

TEST(ConfigFile, AKeyGivenTwiceIsAnError) {
  EXPECT_EQ(load_error("run:\n  seed: 1\n  seed: 2\n"),
            "config.yaml:3:3: 'seed' is given twice, first at config.yaml:2:3");
  EXPECT_EQ(load_error("run: {seed: 1}\nmodel: {}\nrun: {output: a}\n"),
            "config.yaml:3:1: 'run' is given twice, first at config.yaml:1:1");
  EXPECT_EQ(load_error("model: {config: {a: {b: 1, b: 2}}}"),
            "config.yaml:1:28: 'b' is given twice, first at config.yaml:1:22");
}

}  // namespace
}  // namespace packtrain
