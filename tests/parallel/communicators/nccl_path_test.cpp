// The paths of NCCL's collectives, one GPU a rank; also with ranks split by NCCL_HOSTID, where only
// the ring is left.
#include <cmath>
#include <string>

#include "framework/core/error.h"
#include "parallel/communicators/collectives.h"
#include "tests/parallel/communicators/bfloat16.h"
#include "tests/parallel/communicators/nccl_fixture.h"

namespace packtrain {
namespace {

constexpr const char* kNames[] = {"ring", "symmetric", "copy_engine"};

const char* name_of(CollectivePath path) {
  return kNames[static_cast<int>(path)];
}

bool can_have(CollectivePath path) {
  return path == CollectivePath::kRing || test_world().local_size() == test_world().size();
}

class NcclPath : public Nccl, public testing::WithParamInterface<CollectivePath> {
 protected:
  NcclPath() : Nccl({.path = GetParam()}) {}

  // Gathers `count` elements of each rank between guards; out of place and in place.
  void expect_gathered(std::size_t count) {
    constexpr std::size_t kGuard = 2048;
    std::vector<std::uint16_t> mine(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = stamp(rank_, i);
    const CommunicatorMemory send = upload(mine);
    const CommunicatorMemory receive =
        upload(std::vector<std::uint16_t>(count * size_ + 2 * kGuard, 0xffff));
    auto* const place = at<std::uint16_t>(receive, kGuard);
    for (int repeat = 0; repeat < 3; ++repeat) {
      stream_->run([&](StreamHandle stream) {
        const void* from = repeat < 2 ? send.data : place + rank_ * count;
        comm_->all_gather(from, place, count, DataType::kBFloat16, stream);
      });
    }
    const auto got = download<std::uint16_t>(receive);
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(got[i], 0xffff);
      ASSERT_EQ(got[kGuard + count * size_ + i], 0xffff);
    }
    for (std::size_t i = 0; i < count * size_; ++i) {
      ASSERT_EQ(got[kGuard + i], stamp(i / count, i % count)) << "element " << i << " of " << count;
    }
  }

  static float term(std::size_t rank, std::size_t i) {
    return static_cast<float>((i * 2654435761U + rank * 40503U) % 2001U) / 250.0F - 4.0F;
  }

  static std::uint16_t stamp(std::size_t rank, std::size_t i) {
    return static_cast<std::uint16_t>((i * 40503U + rank * 7919U) >> 2U);
  }
};

INSTANTIATE_TEST_SUITE_P(All, NcclPath,
                         testing::Values(CollectivePath::kRing, CollectivePath::kSymmetric,
                                         CollectivePath::kCopyEngine),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(NcclPath, IsTheOneAskedForOrTheRingWithAReason) {
  const CommunicatorMemory memory = comm_->allocate(5000);
  if (size_ == 1 || can_have(GetParam())) {
    EXPECT_EQ(comm_->path(), size_ == 1 ? "ring" : name_of(GetParam()));
  } else {
    EXPECT_EQ(comm_->path(),
              std::string("ring (") + name_of(GetParam()) + " needs all ranks on one host)");
  }
}

TEST_P(NcclPath, CanBeRequired) {
  const auto required =
      test_world().connect(Backend::kNccl, {.path = GetParam(), .required = true});
  if (can_have(GetParam())) {
    EXPECT_NE(required->allocate(5000).data, nullptr);
  } else {
    EXPECT_THROW(required->allocate(5000), Error);
  }
}

TEST_P(NcclPath, GathersTheSameBits) {
  for (const std::size_t count : {2048U, 4104U, 3'000'008U}) expect_gathered(count);
}

TEST_P(NcclPath, RefusesOddPartsInWindows) {
  constexpr std::size_t kCount = 4099;
  const CommunicatorMemory whole = comm_->allocate(2 * kCount * size_);
  const auto gather = [&] {
    comm_->all_gather(at<std::uint16_t>(whole, kCount * rank_), whole.data, kCount,
                      DataType::kBFloat16, nullptr);
  };
  if (comm_->path().starts_with("ring")) {
    EXPECT_NO_THROW(gather());
  } else {
    EXPECT_THROW(gather(), Error);
  }
}

TEST_P(NcclPath, SumsBFloat16WithinOneRoundingOrOneAHop) {
  for (const std::size_t count : {2048U, 2'000'008U}) {
    std::vector<std::uint16_t> mine(count * size_);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = to_bfloat16(term(rank_, i));
    const CommunicatorMemory send = upload(mine);
    comm_->allocate_scratch(send.size);
    const CommunicatorMemory receive = comm_->allocate(count * sizeof(std::uint16_t));
    stream_->run([&](StreamHandle stream) {
      comm_->reduce_scatter(send.data, receive.data, count, DataType::kBFloat16, stream);
    });
    const auto got = download<std::uint16_t>(receive);
    const bool ring = GetParam() == CollectivePath::kRing || !can_have(GetParam());
    const double num_roundings = ring ? static_cast<double>(size_) : 1;
    for (std::size_t i = 0; i < count; ++i) {
      double exact = 0;
      double largest = 0;  // partial sum
      for (std::size_t r = 0; r < size_; ++r) {
        exact += from_bfloat16(to_bfloat16(term(r, rank_ * count + i)));
        largest += std::abs(term(r, rank_ * count + i));
      }
      const double rounded = ring ? largest : std::abs(exact);
      ASSERT_NEAR(from_bfloat16(got[i]), exact, num_roundings * rounded / 256 + 1e-6) << i;
    }
  }
}

TEST_P(NcclPath, SumsFloat32) {
  constexpr std::size_t kCount = 300'000;
  std::vector<float> mine(kCount * size_);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = term(rank_, i);
  const CommunicatorMemory send = upload(mine);
  comm_->allocate_scratch(send.size);
  const CommunicatorMemory receive = comm_->allocate(kCount * sizeof(float));
  stream_->run([&](StreamHandle stream) {
    comm_->reduce_scatter(send.data, receive.data, kCount, DataType::kFloat32, stream);
  });
  const auto got = download<float>(receive);
  for (std::size_t i = 0; i < kCount; ++i) {
    double exact = 0;
    for (std::size_t r = 0; r < size_; ++r) exact += term(r, rank_ * kCount + i);
    ASSERT_NEAR(got[i], exact, 1e-6 * static_cast<double>(size_));
  }
}

// The sums follow each other on one stream, so that they share the scratch memory where there is
// any. The last one is in place.
TEST_P(NcclPath, SumsThatFollowEachOtherDoNotMix) {
  constexpr std::size_t kCount = 1'000'000;
  constexpr std::size_t kNum = 6;
  std::vector<CommunicatorMemory> sends;
  for (std::size_t s = 0; s < kNum; ++s) {
    std::vector<std::uint16_t> mine(kCount * size_);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = to_bfloat16(static_cast<float>((i + s * 7 + rank_ * 3) % 31));  // sums are exact
    }
    sends.push_back(upload(mine));
  }
  comm_->allocate_scratch(sends[0].size);
  const CommunicatorMemory receive = comm_->allocate((kNum - 1) * kCount * sizeof(std::uint16_t));
  stream_->run([&](StreamHandle stream) {
    for (std::size_t s = 0; s < kNum; ++s) {
      auto* const to = s + 1 < kNum ? at<std::uint16_t>(receive, s * kCount)
                                    : at<std::uint16_t>(sends[s], rank_ * kCount);
      comm_->reduce_scatter(sends[s].data, to, kCount, DataType::kBFloat16, stream);
    }
  });
  const auto got = download<std::uint16_t>(receive);
  const auto last = download<std::uint16_t>(sends.back());
  for (std::size_t s = 0; s < kNum; ++s) {
    for (std::size_t i = 0; i < kCount; ++i) {
      std::size_t sum = 0;
      for (std::size_t r = 0; r < size_; ++r) sum += (rank_ * kCount + i + s * 7 + r * 3) % 31;
      const std::uint16_t value = s + 1 < kNum ? got[s * kCount + i] : last[rank_ * kCount + i];
      ASSERT_EQ(from_bfloat16(value), static_cast<float>(sum)) << s << ", " << i;
    }
  }
}

TEST_P(NcclPath, TakesScratchMemoryForCopyEnginesAlone) {
  const bool copies =
      GetParam() == CollectivePath::kCopyEngine && can_have(GetParam()) && size_ > 1;
  EXPECT_EQ(comm_->allocate_scratch(8192), copies ? 8192U : 0U);
}

TEST_P(NcclPath, IsKeptBySplits) {
  const auto everybody = comm_->split(0, comm_->rank());
  EXPECT_NE(everybody->allocate(5000).data, nullptr);
  EXPECT_NE(comm_->allocate(5000).data, nullptr);
  EXPECT_EQ(everybody->path(), comm_->path());
  const auto alone = comm_->split(comm_->rank(), 0);
  EXPECT_NE(alone->allocate(5000).data, nullptr);
  EXPECT_EQ(alone->path(), "ring");
}

TEST_P(NcclPath, MemoryMayOutliveItsCommunicator) {
  CommunicatorMemory memory = upload(std::vector<float>(3000, 2.5F));
  comm_.reset();
  EXPECT_EQ(download<float>(memory)[2999], 2.5F);
  memory = {};
}

TEST_P(NcclPath, MemoryOfAnAbortedCommunicatorCanBeFreed) {
  {
    const CommunicatorMemory memory = comm_->allocate(5000);
    comm_->barrier();
    comm_->abort();
  }
  EXPECT_THROW(comm_->allocate(5000), Error);
}

std::size_t free_device_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  PACKTRAIN_CUDA_CHECK(cudaDeviceSynchronize());
  PACKTRAIN_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

TEST(NcclCycles, FiftyStartsAndStopsLeakNoDeviceMemory) {
  if (test_world().local_size() == 1) return;  // no windows there; half a second a start
  Device& device = test_device();
  const auto stream = device.make_stream(StreamKind::kGather);
  const auto cycle = [&] {
    const auto comm = test_world().connect(Backend::kNccl, {.path = CollectivePath::kCopyEngine});
    constexpr std::size_t kCount = 1U << 20U;
    const CommunicatorMemory send = comm->allocate(kCount);
    const CommunicatorMemory receive =
        comm->allocate(kCount * static_cast<std::size_t>(comm->size()));
    stream->run([&](StreamHandle handle) {
      comm->all_gather(send.data, receive.data, kCount, DataType::kUInt8, handle);
      comm->all_reduce(send.data, 2, DataType::kFloat32, ReduceOp::kSum, handle);
    });
    stream->synchronize();
  };
  // Memory that another rank has mapped is freed when that rank has ended its communicator too.
  const auto free_after_all = [] {
    any_rank(false, test_world().control());
    return free_device_memory();
  };
  for (int i = 0; i < 3; ++i) cycle();
  const std::size_t before = free_after_all();
  for (int i = 0; i < 50; ++i) cycle();
  EXPECT_LE(before, free_after_all() + (8U << 20U));
}

}  // namespace
}  // namespace packtrain
