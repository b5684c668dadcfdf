#include "samplers/attention_span.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "samplers/options.h"

namespace packtrain::attention_span_test {
namespace {

// Twice the pairs of a query with another key, and each query with its own key once.
double squares_of(const AttentionPattern& pattern, std::int64_t length) {
  const std::int64_t own = pattern.is_full() ? length : std::min(pattern.window, length);
  return static_cast<double>(2 * pattern.pairs(length) - own);
}

TEST(AttentionSpan, CountsThePairsOfItsPatterns) {
  const AttentionPattern full;
  const AttentionPattern window{.window = 6};
  const AttentionSpan some = attention_span(std::vector{window, full, window, window});
  const AttentionSpan all = attention_span(std::vector{full, full});
  const AttentionSpan windows = attention_span(std::vector{window});
  for (std::int64_t length = 0; length < 20; ++length) {
    const double whole = squares_of(full, length);
    const double seen = squares_of(window, length);
    const auto tokens = static_cast<double>(length);
    EXPECT_DOUBLE_EQ(all.squares(tokens), whole);
    EXPECT_DOUBLE_EQ(windows.squares(tokens), seen) << length;
    EXPECT_DOUBLE_EQ(some.squares(tokens), 0.25 * whole + 0.75 * seen) << length;
  }
}

TEST(AttentionSpan, HasTheMeanOfSeveralWindows) {
  const std::vector<AttentionPattern> layers = {{.window = 100}, {}, {.window = 300}, {200}};
  EXPECT_EQ(attention_span(layers), (AttentionSpan{.windowed_share = 0.75, .window = 200}));
  EXPECT_EQ(attention_span({}), AttentionSpan{});
}

// A chunk's first token is half a pair with itself, as any.
TEST(AttentionSpan, CountsThePairsOfChunks) {
  const AttentionPattern full;
  const AttentionPattern chunks{.chunk = 6};
  const AttentionSpan some = attention_span(std::vector{chunks, full, chunks, chunks});
  EXPECT_EQ(some, (AttentionSpan{.chunked_share = 0.75, .chunk = 6}));
  const AttentionSpan mixed = attention_span(std::vector{chunks, {.window = 4}});
  for (std::int64_t length = 0; length < 20; ++length) {
    const auto tokens = static_cast<double>(length);
    const auto in_chunks = static_cast<double>(2 * chunks.pairs(length) - length);
    const double in_window = squares_of({.window = 4}, length);
    EXPECT_DOUBLE_EQ(some.squares(tokens), 0.25 * tokens * tokens + 0.75 * in_chunks) << length;
    EXPECT_DOUBLE_EQ(mixed.squares(tokens), 0.5 * in_chunks + 0.5 * in_window) << length;
  }
}

TEST(AttentionSpan, IsPartOfAnExamplesCost) {
  const CostModel cost{.linear = 2.0, .quadratic = 0.5, .span = {1, 4}};
  EXPECT_DOUBLE_EQ(cost.of_example(4), 2 * 4 + 0.5 * 16);
  EXPECT_DOUBLE_EQ(cost.of_example(10), 2 * 10 + 0.5 * (4 * (2 * 10 - 4)));
}

TEST(AttentionSpan, CountsPairsWithAPrefixButNotThoseOfThePrefix) {
  const AttentionSpan some{.windowed_share = 0.5, .window = 4};
  const std::vector<RowRange> prefix = {{0, 6}};
  const AttentionSegment segment{{10, 13}, prefix};
  EXPECT_DOUBLE_EQ(some.squares(segment), some.squares(9) - some.squares(6));
  EXPECT_EQ(some.squares(AttentionSegment{{10, 19}, {}}), some.squares(9));
}

// Plans of saved runs depend on each bit.
TEST(AttentionSpan, KeepsTheOrderOfItsOperations) {
  const AttentionSpan span{.windowed_share = 5.0 / 6, .window = 1000.0 / 3};
  const double length = 1234.0;
  const double all = length * length;
  EXPECT_EQ(span.squares(length),
            (1 - 5.0 / 6) * all + 5.0 / 6 * (1000.0 / 3) * (2 * length - 1000.0 / 3));
}

}  // namespace
}  // namespace packtrain::attention_span_test
