#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "tests/parallel/communicators/bfloat16.h"
#include "tests/parallel/communicators/world_fixture.h"

namespace packtrain {
namespace {

class Collectives : public testing::Test {
 protected:
  std::unique_ptr<Communicator> comm_ = test_world().connect(test_world().on_cpu());
  std::size_t rank_ = static_cast<std::size_t>(comm_->rank());
  std::size_t size_ = static_cast<std::size_t>(comm_->size());

  // Returns the value of `rank` at `i`, which any rank can compute.
  static float value(std::size_t rank, std::size_t i) {
    return static_cast<float>(CounterRandom(7, "values", rank).normal(i));
  }
};

// More than one staged part, and not a multiple of one.
constexpr std::size_t kManyElements = (std::size_t{1} << 20U) + 12345;

TEST_F(Collectives, AllGatherBringsEveryRanksPartInOrder) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{777}, kManyElements}) {
    std::vector<float> send(count);
    for (std::size_t i = 0; i < count; ++i) send[i] = value(rank_, i);
    std::vector<float> receive(count * size_, -1.0F);
    comm_->all_gather(send.data(), receive.data(), count, DataType::kFloat32, nullptr);
    for (std::size_t r = 0; r < size_; ++r) {
      for (std::size_t i = 0; i < count; i += 97) {
        ASSERT_EQ(receive[r * count + i], value(r, i)) << "rank " << r << " element " << i;
      }
    }
  }
}

TEST_F(Collectives, AllGatherWorksInPlace) {
  constexpr std::size_t kCount = 1001;
  std::vector<std::uint16_t> all(kCount * size_);
  for (std::size_t i = 0; i < kCount; ++i) {
    all[rank_ * kCount + i] = static_cast<std::uint16_t>(rank_ * kCount + i);
  }
  comm_->all_gather(&all[rank_ * kCount], all.data(), kCount, DataType::kBFloat16, nullptr);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::uint16_t>(i));
}

TEST_F(Collectives, AllToAllBringsEachRankWhatTheOthersSendIt) {
  // Rank r sends (r + 2 s) % 3 * unit elements to rank s: some send nothing.
  for (const std::size_t unit : {std::size_t{1}, std::size_t{500}, kManyElements}) {
    const auto count = [&](std::size_t from, std::size_t to) { return (from + 2 * to) % 3 * unit; };
    std::vector<std::size_t> sent;
    std::vector<std::size_t> received;
    std::vector<float> send;
    for (std::size_t r = 0; r < size_; ++r) {
      sent.push_back(count(rank_, r));
      received.push_back(count(r, rank_));
      for (std::size_t i = 0; i < sent.back(); ++i) send.push_back(value(rank_ * 100 + r, i));
    }
    std::vector<float> receive(std::accumulate(received.begin(), received.end(), std::size_t{0}),
                               -1.0F);
    comm_->all_to_all(send.data(), sent, receive.data(), received, DataType::kFloat32, nullptr);
    std::size_t at = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      for (std::size_t i = 0; i < received[r]; i += unit > 500 ? 97 : 1) {
        ASSERT_EQ(receive[at + i], value(r * 100 + rank_, i)) << "from rank " << r;
      }
      at += received[r];
    }
  }
}

TEST_F(Collectives, ReduceScatterOfFloat32AddsInTheOrderOfRanks) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, kManyElements}) {
    std::vector<float> send(count * size_);
    for (std::size_t i = 0; i < send.size(); ++i) send[i] = value(rank_, i);
    std::vector<float> receive(count);
    comm_->reduce_scatter(send.data(), receive.data(), count, DataType::kFloat32, nullptr);
    for (std::size_t i = 0; i < count; i += count > 5000 ? 101 : 1) {
      float in_order = 0;
      double exact = 0;
      for (std::size_t r = 0; r < size_; ++r) {
        const float term = value(r, rank_ * count + i);
        in_order = r == 0 ? term : in_order + term;
        exact += term;
      }
      ASSERT_EQ(receive[i], in_order) << i;
      ASSERT_NEAR(receive[i], exact, 1e-6 * static_cast<double>(size_));
    }
  }
}

TEST_F(Collectives, ReduceScatterOfBFloat16RoundsOnce) {
  constexpr std::size_t kCount = 4099;
  std::vector<std::uint16_t> send(kCount * size_);
  for (std::size_t i = 0; i < send.size(); ++i) send[i] = to_bfloat16(value(rank_, i));
  std::uint16_t* receive = &send[rank_ * kCount];  // in place
  comm_->reduce_scatter(send.data(), receive, kCount, DataType::kBFloat16, nullptr);
  for (std::size_t i = 0; i < kCount; ++i) {
    float sum = 0;
    double exact = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      const float term = from_bfloat16(to_bfloat16(value(r, rank_ * kCount + i)));
      sum = r == 0 ? term : sum + term;
      exact += term;
    }
    ASSERT_EQ(receive[i], to_bfloat16(sum)) << i;
    // Half a unit in the last of 8 bits, and the float32 additions.
    ASSERT_NEAR(from_bfloat16(receive[i]), exact, std::abs(exact) / 256 + 1e-6);
  }
}

TEST_F(Collectives, ReduceScatterOfBFloat16KeepsInfinityAndNan) {
  std::vector<float> specials = {std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(), -0.0F, 3.38e38F};
  std::vector<std::uint16_t> send;
  for (std::size_t r = 0; r < size_; ++r) {
    for (const float special : specials) send.push_back(to_bfloat16(special));
  }
  std::vector<std::uint16_t> receive(specials.size());
  comm_->reduce_scatter(send.data(), receive.data(), receive.size(), DataType::kBFloat16, nullptr);
  EXPECT_TRUE(std::isinf(from_bfloat16(receive[0])));
  EXPECT_TRUE(std::isnan(from_bfloat16(receive[1])));
  EXPECT_EQ(from_bfloat16(receive[2]), 0.0F);
  EXPECT_EQ(std::isinf(from_bfloat16(receive[3])), size_ > 1);
}

template <typename T>
std::vector<T> reduced(Communicator& comm, std::vector<T> values, DataType type, ReduceOp op) {
  comm.all_reduce(values.data(), values.size(), type, op, nullptr);
  return values;
}

TEST_F(Collectives, AllReduceOfInt64IsExact) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{1013}}) {
    std::vector<std::int64_t> values(count);
    const auto own = static_cast<std::int64_t>(rank_);
    const auto last = static_cast<std::int64_t>(size_) - 1;
    std::iota(values.begin(), values.end(), (std::int64_t{1} << 60) / (last + 1) + own);
    const auto sum = reduced(*comm_, values, DataType::kInt64, ReduceOp::kSum);
    const auto low = reduced(*comm_, values, DataType::kInt64, ReduceOp::kMin);
    const auto high = reduced(*comm_, values, DataType::kInt64, ReduceOp::kMax);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t first = values[i] - own;
      ASSERT_EQ(sum[i], (last + 1) * first + last * (last + 1) / 2);
      ASSERT_EQ(low[i], first);
      ASSERT_EQ(high[i], first + last);
    }
  }
}

TEST_F(Collectives, AllReduceOfFloat32LeavesTheSameBitsOnAllRanks) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{513}, kManyElements}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value(rank_, i);
    const auto sum = reduced(*comm_, values, DataType::kFloat32, ReduceOp::kSum);
    const auto low = reduced(*comm_, values, DataType::kFloat32, ReduceOp::kMin);
    const auto high = reduced(*comm_, values, DataType::kFloat32, ReduceOp::kMax);
    for (std::size_t i = 0; i < count; i += count > 5000 ? 101 : 1) {
      float in_order = value(0, i);
      float least = in_order;
      float most = in_order;
      for (std::size_t r = 1; r < size_; ++r) {
        in_order += value(r, i);
        least = std::min(least, value(r, i));
        most = std::max(most, value(r, i));
      }
      ASSERT_EQ(sum[i], in_order) << i;
      ASSERT_EQ(low[i], least) << i;
      ASSERT_EQ(high[i], most) << i;
    }
  }
}

TEST_F(Collectives, BroadcastSendsTheRootsBytes) {
  for (std::size_t root = 0; root < size_; ++root) {
    std::vector<std::uint8_t> bytes(5001);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(rank_ * 31 + i);
    }
    comm_->broadcast(bytes.data(), bytes.size(), static_cast<int>(root), nullptr);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], static_cast<std::uint8_t>(root * 31 + i));
    }
  }
}

TEST_F(Collectives, GatherBringsEveryRanksPartToTheRootAlone) {
  constexpr std::size_t kCount = 1201;
  for (std::size_t root = 0; root < size_; ++root) {
    std::vector<float> send(kCount);
    for (std::size_t i = 0; i < kCount; ++i) send[i] = value(rank_, i);
    std::vector<float> receive(rank_ == root ? kCount * size_ : 0);
    comm_->gather(send.data(), receive.data(), kCount, DataType::kFloat32, static_cast<int>(root));
    for (std::size_t k = 0; k < receive.size(); ++k) {
      ASSERT_EQ(receive[k], value(k / kCount, k % kCount)) << "to " << root << ", element " << k;
    }
  }
}

TEST_F(Collectives, AllReduceOfManyIntegersIsExact) {
  // More than all ranks gather, and more than are staged at a time.
  for (const std::size_t count : {std::size_t{200001}, kManyElements}) {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int64_t>(i * 5 + rank_);
    const auto sum = reduced(*comm_, values, DataType::kInt64, ReduceOp::kSum);
    const auto high = reduced(*comm_, values, DataType::kInt64, ReduceOp::kMax);
    const auto n = static_cast<std::int64_t>(size_);
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = static_cast<std::int64_t>(i * 5);
      ASSERT_EQ(sum[i], n * first + n * (n - 1) / 2) << i;
      ASSERT_EQ(high[i], first + n - 1) << i;
    }
  }
}

TEST_F(Collectives, ZeroElementsAreFine) {
  comm_->all_gather(nullptr, nullptr, 0, DataType::kFloat32, nullptr);
  comm_->reduce_scatter(nullptr, nullptr, 0, DataType::kFloat32, nullptr);
  comm_->all_reduce(nullptr, 0, DataType::kInt64, ReduceOp::kMax, nullptr);
  comm_->broadcast(nullptr, 0, 0, nullptr);
  comm_->gather(nullptr, nullptr, 0, DataType::kInt64, 0);
  comm_->barrier();
}

TEST_F(Collectives, SplitMakesGroupsByColorOrderedByKey) {
  const int rank = comm_->rank();
  const auto part = comm_->split(rank % 2, -rank);  // in descending order of ranks
  const int members = (comm_->size() + (rank % 2 == 0 ? 1 : 0)) / 2;
  ASSERT_EQ(part->size(), members);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(members));
  part->all_gather(&rank, ranks.data(), 1, DataType::kInt32, nullptr);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i] % 2, rank % 2);
    EXPECT_TRUE(i == 0 || ranks[i] < ranks[i - 1]);
  }
}

TEST_F(Collectives, TwoCommunicatorsServeTwoThreadsAtTheSameTime) {
  const auto other = test_world().connect(test_world().on_cpu());
  const auto work = [](Communicator& comm, std::int64_t seed, std::int64_t& mistakes) {
    for (std::int64_t round = 0; round < 200; ++round) {
      std::int64_t sum = seed + round + comm.rank();
      comm.all_reduce(&sum, 1, DataType::kInt64, ReduceOp::kSum, nullptr);
      const std::int64_t n = comm.size();
      if (sum != n * (seed + round) + n * (n - 1) / 2) ++mistakes;
    }
  };
  std::int64_t mistakes_there = 0;
  std::int64_t mistakes_here = 0;
  std::thread thread([&] { work(*other, 1000000, mistakes_there); });
  work(*comm_, 0, mistakes_here);
  thread.join();
  EXPECT_EQ(mistakes_here, 0);
  EXPECT_EQ(mistakes_there, 0);
}

TEST_F(Collectives, AllocatedMemoryIsUsableAndAligned) {
  const CommunicatorMemory memory = comm_->allocate(100001);
  ASSERT_NE(memory.data, nullptr);
  EXPECT_EQ(memory.size, 100001U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data) % 4096, 0U);
  std::memset(memory.data, 1, memory.size);
  EXPECT_EQ(comm_->allocate(0).data, nullptr);
}

TEST_F(Collectives, AbortFreesAThreadThatWaits) {
  if (size_ == 1) return;  // nothing to wait for
  if (rank_ == 0) {
    std::thread waiting([&] {
      std::int64_t word = 0;
      EXPECT_THROW(comm_->all_reduce(&word, 1, DataType::kInt64, ReduceOp::kSum, nullptr), Error);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    comm_->abort();
    waiting.join();
  } else {
    comm_->abort();  // all ranks do: an aborted communicator is not freed collectively
  }
}

}  // namespace
}  // namespace packtrain
