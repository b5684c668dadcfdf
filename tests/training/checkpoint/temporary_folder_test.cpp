// Tests the folder that appears complete or not at all.
#include "training/checkpoint/temporary_folder.h"

#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

TEST(OutputFolder, ThatCannotBeMadeIsAnErrorWithAdvice) {
  const test::TemporaryFolder place;
  test::write_bytes(place / "file", "");
  const Error error = test::error_of([&] { const TemporaryFolder out(place / "file/out"); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_NE(error.message().find(place / "file/out"), std::string::npos) << error.what();
  EXPECT_NE(error.advice().find("right to write"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace packtrain
