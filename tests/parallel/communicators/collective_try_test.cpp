// Tests how ranks agree on the result or the error of a piece of work.
#include "parallel/communicators/collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/thread_ranks.h"

namespace packtrain::test {
namespace {

TEST(CollectiveTry, ReportsTheReasonsOfEightRanksAndCountsTheRest) {
  run_ranks(12, [&](Communicator& control) {
    const Error error = error_of([&] {
      collective_try("nothing was saved", control, [&] {
        if (control.rank() > 0) throw Error(ErrorCategory::kInternal, "no disk", "");
      });
    });
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    EXPECT_TRUE(error.message().starts_with("nothing was saved: rank 1: no disk; rank 2: "))
        << error.message();
    EXPECT_TRUE(error.message().ends_with("rank 8: no disk; and 3 more ranks")) << error.message();
  });
}

TEST(CollectiveTry, TheErrorOfTheFirstRankThatIsAskedIsThrownOnEveryRank) {
  run_ranks(3, [&](Communicator& control) {
    int num_calls = 0;
    const Error error = error_of([&] {
      run_on_first_rank(control, [&]() -> std::string {
        ++num_calls;
        throw Error(ErrorCategory::kConfig, "what", "do this");
      });
    });
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_EQ(error.message(), "what");
    EXPECT_EQ(error.advice(), "do this");
    EXPECT_EQ(num_calls, control.rank() == 0 ? 1 : 0);
  });
}

TEST(CollectiveTry, TheAnswerOfTheFirstRankIsEveryRanks) {
  run_ranks(3, [&](Communicator& control) {
    EXPECT_EQ(run_on_first_rank(control, [] { return std::string("step-3"); }), "step-3");
    EXPECT_EQ(run_on_first_rank(control, [] { return std::string(); }), "");
  });
}

TEST(CollectiveTry, TheErrorOfTheLowestFailedRankIsReported) {
  run_ranks(4, [&](Communicator& control) {
    std::optional<Error> own;
    if (control.rank() >= 2) {
      own = Error(ErrorCategory::kData, fmt::format("of rank {}", control.rank()), "");
    }
    const auto first = first_rank_error(own, control);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->rank, 2);
    EXPECT_EQ(first->error.message(), "of rank 2");
    EXPECT_EQ(first->error.category(), ErrorCategory::kData);
    EXPECT_FALSE(first_rank_error(std::nullopt, control).has_value());
  });
}

TEST(CollectiveTry, TextsOfDifferentLengthsAreGatheredAtOneRank) {
  run_ranks(3, [&](Communicator& control) {
    const std::string own(static_cast<std::size_t>(control.rank()), 'x');
    const auto texts = gather_texts(own, 1, control);
    const std::vector<std::string> all{"", "x", "xx"};
    EXPECT_EQ(texts, control.rank() == 1 ? all : std::vector<std::string>());
  });
}

}  // namespace
}  // namespace packtrain::test
