// The NCCL backend, one GPU a rank.
#include <atomic>
#include <cmath>
#include <thread>

#include "framework/core/error.h"
#include "tests/parallel/communicators/bfloat16.h"
#include "tests/parallel/communicators/nccl_fixture.h"

namespace packtrain {
namespace {

TEST_F(Nccl, HasTheWorldsRanks) {
  EXPECT_EQ(comm_->rank(), test_world().rank());
  EXPECT_EQ(comm_->size(), test_world().size());
  comm_->barrier();
  comm_->poll_error();
}

TEST_F(Nccl, AllGatherWorksInPlace) {
  constexpr std::size_t kCount = 100003;
  std::vector<float> mine(kCount * size_, -1.0F);
  for (std::size_t i = 0; i < kCount; ++i) mine[rank_ * kCount + i] = value(rank_, i);
  const CommunicatorMemory all = upload(mine);
  stream_->run([&](StreamHandle stream) {
    comm_->all_gather(at<float>(all, rank_ * kCount), all.data, kCount, DataType::kFloat32, stream);
  });
  const auto got = download<float>(all);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], value(i / kCount, i % kCount));
}

TEST_F(Nccl, AllToAllBringsEachRankWhatTheOthersSendIt) {
  // Rank r sends (r + 2 s) % 3 * 1001 elements to rank s: some send nothing.
  const auto count = [](std::size_t from, std::size_t to) { return (from + 2 * to) % 3 * 1001; };
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
  std::vector<float> mine;
  std::size_t num_received = 0;
  for (std::size_t r = 0; r < size_; ++r) {
    sent.push_back(count(rank_, r));
    received.push_back(count(r, rank_));
    num_received += received.back();
    for (std::size_t i = 0; i < sent.back(); ++i) mine.push_back(value(rank_ * 100 + r, i));
  }
  mine.push_back(0);  // no buffer is empty
  const CommunicatorMemory send = upload(mine);
  const CommunicatorMemory receive = upload(std::vector<float>(num_received + 1, -1.0F));
  stream_->run([&](StreamHandle stream) {
    comm_->all_to_all(send.data, sent, receive.data, received, DataType::kFloat32, stream);
  });
  const auto got = download<float>(receive);
  std::size_t at_element = 0;
  for (std::size_t r = 0; r < size_; ++r) {
    for (std::size_t i = 0; i < received[r]; ++i) {
      ASSERT_EQ(got[at_element++], value(r * 100 + rank_, i)) << "from rank " << r;
    }
  }
}

TEST_F(Nccl, ReduceScatterAddsFloat32) {
  constexpr std::size_t kCount = 4099;
  std::vector<float> mine(kCount * size_);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(rank_, i);
  const CommunicatorMemory send = upload(mine);
  const CommunicatorMemory receive = comm_->allocate(kCount * sizeof(float));
  stream_->run([&](StreamHandle stream) {
    comm_->reduce_scatter(send.data, receive.data, kCount, DataType::kFloat32, stream);
  });
  const auto got = download<float>(receive);
  for (std::size_t i = 0; i < kCount; ++i) {
    double exact = 0;
    for (std::size_t r = 0; r < size_; ++r) exact += value(r, rank_ * kCount + i);
    ASSERT_NEAR(got[i], exact, 1e-6 * static_cast<double>(size_));
  }
}

TEST_F(Nccl, ReduceScatterAddsBFloat16InPlace) {
  constexpr std::size_t kCount = 4099;
  std::vector<std::uint16_t> mine(kCount * size_);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = to_bfloat16(value(rank_, i));
  const CommunicatorMemory send = upload(mine);
  stream_->run([&](StreamHandle stream) {
    comm_->reduce_scatter(send.data, at<std::uint16_t>(send, rank_ * kCount), kCount,
                          DataType::kBFloat16, stream);
  });
  const auto got = download<std::uint16_t>(send);
  for (std::size_t i = 0; i < kCount; ++i) {
    double exact = 0;
    double terms = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      const float term = from_bfloat16(to_bfloat16(value(r, rank_ * kCount + i)));
      exact += term;
      terms += std::abs(term);
    }
    // Rings may round at each hop.
    ASSERT_NEAR(from_bfloat16(got[rank_ * kCount + i]), exact,
                terms * static_cast<double>(size_) / 256);
  }
}

TEST_F(Nccl, AllReduceKnowsSumMinAndMax) {
  const auto reduced = [&](ReduceOp op) {
    const CommunicatorMemory word = upload(std::vector<std::int64_t>{comm_->rank() + 5});
    stream_->run([&](StreamHandle stream) {
      comm_->all_reduce(word.data, 1, DataType::kInt64, op, stream);
    });
    return download<std::int64_t>(word)[0];
  };
  const auto n = static_cast<std::int64_t>(size_);
  EXPECT_EQ(reduced(ReduceOp::kSum), 5 * n + n * (n - 1) / 2);
  EXPECT_EQ(reduced(ReduceOp::kMin), 5);
  EXPECT_EQ(reduced(ReduceOp::kMax), 5 + n - 1);
}

TEST_F(Nccl, BroadcastSendsTheRootsBytes) {
  const int root = comm_->size() - 1;
  const CommunicatorMemory bytes = upload(std::vector<std::uint8_t>(5001, test_world().rank()));
  stream_->run([&](StreamHandle stream) { comm_->broadcast(bytes.data, 5001, root, stream); });
  for (const std::uint8_t byte : download<std::uint8_t>(bytes)) ASSERT_EQ(byte, root);
}

TEST_F(Nccl, SplitMakesGroupsByColor) {
  const auto alone = comm_->split(comm_->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  const auto reversed = comm_->split(0, -comm_->rank());
  EXPECT_EQ(reversed->size(), comm_->size());
  EXPECT_EQ(reversed->rank(), comm_->size() - 1 - comm_->rank());
  reversed->barrier();
}

// As training does (CommunicatorWatch).
TEST_F(Nccl, AnotherThreadAsksForFaultsDuringCollectives) {
  constexpr std::size_t kCount = 1 << 20;
  const CommunicatorMemory all = comm_->allocate(kCount * size_ * sizeof(float));
  std::atomic<bool> over = false;
  std::atomic<int> num_polls = 0;
  std::thread watch([&] {
    while (!over) {
      EXPECT_NO_THROW(comm_->poll_error());
      ++num_polls;
    }
  });
  while (num_polls == 0) std::this_thread::yield();  // one rank's collectives are over in no time
  for (int round = 0; round < 200; ++round) {
    stream_->run([&](StreamHandle stream) {
      comm_->all_gather(at<float>(all, rank_ * kCount), all.data, kCount, DataType::kFloat32,
                        stream);
    });
    if (round % 50 == 0) comm_->barrier();
  }
  comm_->barrier();
  over = true;
  watch.join();
}

TEST_F(Nccl, MemoryThatNoGpuHasIsRefusedInWords) {
  try {
    comm_->allocate(std::size_t{1} << 45U);
    FAIL() << "32 TiB were allocated";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("out of GPU memory: 32768.00 GiB"), std::string::npos)
        << error.message();
  }
  comm_->barrier();  // nothing is lost by it
}

TEST_F(Nccl, AnAbortedCommunicatorRefusesWork) {
  comm_->barrier();
  comm_->abort();
  comm_->abort();
  EXPECT_THROW(comm_->poll_error(), Error);
}

}  // namespace
}  // namespace packtrain
