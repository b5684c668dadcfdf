// The kernel that adds up what copy engines brought: on one GPU, for any number of ranks.
#include "parallel/communicators/nccl/rank_sum.h"

#include "tests/parallel/communicators/bfloat16.h"
#include "tests/parallel/communicators/nccl_fixture.h"

namespace packtrain {
namespace {

class RankSum : public Nccl {
 protected:
  // Returns the sums of `parts` [num_ranks, count]. A guard after the sums must not change.
  template <typename T>
  std::vector<T> sums(const std::vector<T>& parts, std::size_t num_ranks) {
    constexpr std::size_t kGuard = 64;
    const std::size_t count = parts.size() / num_ranks;
    const CommunicatorMemory from = upload(parts);
    const CommunicatorMemory to = upload(std::vector<T>(count + kGuard, T{7}));
    stream_->run([&](StreamHandle stream) {
      launch_rank_sum({.parts = from.data,
                       .sum = to.data,
                       .dtype = sizeof(T) == 2 ? DataType::kBFloat16 : DataType::kFloat32,
                       .num_ranks = static_cast<int>(num_ranks),
                       .num_bytes = static_cast<std::int64_t>(count * sizeof(T))},
                      stream);
    });
    std::vector<T> got = download<T>(to);
    for (std::size_t i = count; i < got.size(); ++i) EXPECT_EQ(got[i], T{7}) << "behind the sums";
    got.resize(count);
    return got;
  }
};

TEST_F(RankSum, AddsBFloat16InFloat32InTheOrderOfTheRanksAndRoundsOnce) {
  for (const std::size_t num_ranks : {1U, 2U, 3U, 4U, 5U, 8U, 9U}) {
    for (const std::size_t count : {8U, 2048U, 100'008U, 1'048'576U}) {
      std::vector<std::uint16_t> parts(num_ranks * count);
      for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = to_bfloat16(value(3, i));
      const auto got = sums(parts, num_ranks);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (std::size_t r = 0; r < num_ranks; ++r) sum += from_bfloat16(parts[r * count + i]);
        ASSERT_EQ(got[i], to_bfloat16(sum)) << num_ranks << " ranks, " << i << " of " << count;
      }
    }
  }
}

TEST_F(RankSum, AddsFloat32InTheOrderOfTheRanks) {
  for (const std::size_t num_ranks : {2U, 3U, 4U, 8U}) {
    for (const std::size_t count : {4U, 100'004U}) {
      std::vector<float> parts(num_ranks * count);
      for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = value(4, i);
      const auto got = sums(parts, num_ranks);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (std::size_t r = 0; r < num_ranks; ++r) sum += parts[r * count + i];
        ASSERT_EQ(got[i], sum) << num_ranks << " ranks, " << i << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace packtrain
