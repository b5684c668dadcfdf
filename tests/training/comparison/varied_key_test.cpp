#include "training/comparison/varied_key.h"

#include <gtest/gtest.h>

#include "tests/helpers/temporary_folder.h"

namespace packtrain::varied_key_test {
namespace {

using Values = std::vector<std::string>;

std::string error(const std::string& text) {
  return test::error_of([&] { parse_varied_key(text); }).message();
}

TEST(VariedKeys, HaveValuesBetweenCommas) {
  const VariedKey varied = parse_varied_key("optimizer.learning_rate=1e-5,2e-5,5e-5");
  EXPECT_EQ(varied.key, "optimizer.learning_rate");
  EXPECT_EQ(varied.values, (Values{"1e-5", "2e-5", "5e-5"}));
  EXPECT_EQ(varied.override_with("2e-5"), "optimizer.learning_rate=2e-5");
}

TEST(VariedKeys, CommasOfListsAndQuotesDivideNothing) {
  EXPECT_EQ(parse_varied_key("optimizer.betas=[0.9,0.95],[0.9,0.99]").values,
            (Values{"[0.9,0.95]", "[0.9,0.99]"}));
  EXPECT_EQ(parse_varied_key("model.path=\"a,b\",c").values, (Values{"\"a,b\"", "c"}));
}

TEST(VariedKeys, ThatAComparisonSetsItselfAreRefused) {
  for (const char* key : {"run.output", "run.seed", "data.validation", "checkpoint.resume"}) {
    EXPECT_NE(error(std::string(key) + "=1,2").find(std::string(key) + " cannot vary"),
              std::string::npos)
        << key;
  }
}

TEST(VariedKeys, WithWrongOrEqualValuesAreRefused) {
  EXPECT_EQ(error("optimizer.learning_rate"),
            "--vary: got 'optimizer.learning_rate', wanted KEY=value,value");
  EXPECT_EQ(error("run.max_steps=3"), "--vary: got one value of run.max_steps, wanted two or more");
  EXPECT_EQ(error("optimizer.learning_rate=1e-5,0.00001"),
            "--vary: optimizer.learning_rate is given the value 0.00001 twice");
  EXPECT_NE(error("optimizer.learning_rat=1,2").find("optimizer.learning_rat"), std::string::npos);
  EXPECT_NE(error("precision.compute=bf16,fp8").find("fp8"), std::string::npos);
}

TEST(VariedKeys, NameTheFoldersOfTheirRuns) {
  EXPECT_EQ(VariedKey().folder_of("balanced"), "balanced");
  const VariedKey rates = parse_varied_key("optimizer.learning_rate=1e-5,2e-5");
  EXPECT_EQ(rates.folder_of("1e-5"), "learning_rate-1e-5");
  const VariedKey paths = parse_varied_key("model.path=a/b,a:b");
  EXPECT_EQ(paths.folder_of("a/b"), "path-a_b-1");
  EXPECT_EQ(paths.folder_of("a:b"), "path-a_b-2");
}

}  // namespace
}  // namespace packtrain::varied_key_test
