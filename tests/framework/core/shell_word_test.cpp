// Tests how commands in messages are written.
#include "framework/core/shell_word.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

TEST(ShellWord, QuotesOnlyWhatAShellWouldChange) {
  EXPECT_EQ(shell_word("runs/my-run_1.2"), "runs/my-run_1.2");
  EXPECT_EQ(shell_word("runs/my run"), "'runs/my run'");
  EXPECT_EQ(shell_word("a$(b)"), "'a$(b)'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~/a"), "'~/a'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace packtrain
