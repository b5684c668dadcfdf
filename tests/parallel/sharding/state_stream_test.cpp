// State in host memory on its way through the slots of a device.
#include "parallel/sharding/state_stream.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"

namespace packtrain::state_stream_test {
namespace {

constexpr std::int64_t kPieces = 11;
constexpr std::int64_t kNumel = 100;  // of a tensor of a piece
constexpr std::int64_t kSlotBytes = 1024;

// Two tensors of all pieces, of which each piece has a part. Copies take random times.
class StateStreamTest : public ::testing::Test {
 protected:
  StateStreamTest() : device_(make_cpu_device({.stream_delay_us = 300})) {
    streams_.compute = device_->make_stream(StreamKind::kCompute);
    stream_ = std::make_unique<StateStream>(*device_, streams_, kSlotBytes);
    first_ = at::arange(kPieces * kNumel, at::kFloat);
    second_ = at::full({kPieces * kNumel}, 3, at::kByte);
  }

  static StreamedPieces shared(std::vector<StreamedPiece> all) {
    return std::make_shared<const std::vector<StreamedPiece>>(std::move(all));
  }

  std::vector<StreamedPiece> pieces(bool reads = true, bool writes = true) const {
    std::vector<StreamedPiece> all;
    for (std::int64_t p = 0; p < kPieces; ++p) {
      all.push_back({{first_.narrow(0, p * kNumel, kNumel), true, true},
                     {second_.narrow(0, p * kNumel, kNumel), reads, writes}});
    }
    return all;
  }

  // Adds to each piece on the device.
  void add(std::vector<StreamedPiece> all, int first, int second) {
    add(shared(std::move(all)), first, second);
  }
  void add(const StreamedPieces& all, int first, int second) {
    const std::size_t count = all->size();
    stream_->start(all);
    for (std::size_t p = 0; p < count; ++p) {
      const std::vector<at::Tensor>& tensors = stream_->take();
      tensors[0].add_(first);
      tensors[1].add_(second);
      stream_->give_back();
    }
  }

  bool is_first(int added) const {
    return first_.equal(at::arange(kPieces * kNumel, at::kFloat).add(added));
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_;
  ShardingStreams streams_;
  std::unique_ptr<StateStream> stream_;
  at::Tensor first_;
  at::Tensor second_;
};

TEST_F(StateStreamTest, TheHostHasWhatWasWrittenOnTheDevice) {
  add(pieces(), 5, 1);
  stream_->finish();
  EXPECT_TRUE(is_first(5));
  EXPECT_TRUE(second_.eq(4).all().item<bool>());
}

TEST_F(StateStreamTest, APassReadsWhatThePassBeforeItWroteInOtherSlots) {
  std::vector<StreamedPiece> in_order = pieces();
  std::vector<StreamedPiece> backwards(in_order.rbegin(), in_order.rend());
  add(std::move(in_order), 5, 1);
  add(std::move(backwards), 2, 1);
  stream_->finish();
  EXPECT_TRUE(is_first(7));
  EXPECT_TRUE(second_.eq(5).all().item<bool>());
}

TEST_F(StateStreamTest, PiecesThatAreListedOnceServeEachStep) {
  const StreamedPieces all = shared(pieces());
  for (int step = 0; step < 3; ++step) {
    add(all, 5, 1);
    stream_->finish();
  }
  EXPECT_TRUE(is_first(15));
  EXPECT_TRUE(second_.eq(6).all().item<bool>());
}

TEST_F(StateStreamTest, WhatIsNotWrittenStaysOnTheHost) {
  add(pieces(/*reads=*/true, /*writes=*/false), 5, 1);
  stream_->finish();
  EXPECT_TRUE(is_first(5));
  EXPECT_TRUE(second_.eq(3).all().item<bool>());
}

TEST_F(StateStreamTest, APieceThatWasNotGivenBackIsForgotten) {
  stream_->start(shared(pieces()));
  stream_->take()[0].fill_(-1);
  add(pieces(), 5, 1);
  stream_->finish();
  EXPECT_TRUE(is_first(5));
}

TEST_F(StateStreamTest, APieceLargerThanASlotIsRefused) {
  StreamedPiece large = {{at::full({kSlotBytes + 1}, 0, at::kByte)}};
  try {
    stream_->start(shared({std::move(large)}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("a slot has 1024"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace packtrain::state_stream_test
