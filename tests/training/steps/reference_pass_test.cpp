// Passes before a step of KTO, and memory that runs out anywhere in them.
#include "training/steps/reference_pass.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "models/decoder/decoder.h"
#include "models/objectives/make_objective.h"
#include "parallel/communicators/world.h"
#include "tests/samplers/group_store.h"
#include "tests/training/small_decoder.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"
#include "training/steps/mismatched_answers.h"
#include "training/steps/upload.h"

namespace packtrain::reference_pass_test {
namespace {

// The allocator that libtorch has, which fails once, at an allocation that the test chooses.
class FailingAllocator final : public c10::Allocator {
 public:
  explicit FailingAllocator(c10::Allocator& allocator) : allocator_(allocator) {
    c10::SetCPUAllocator(this, /*priority=*/1);
  }
  ~FailingAllocator() override { c10::SetCPUAllocator(&allocator_, /*priority=*/1); }

  c10::DataPtr allocate(std::size_t size) override {
    TORCH_CHECK_WITH(OutOfMemoryError, num_allocations_++ != failing_, "here");
    return allocator_.allocate(size);
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
  // -1: none.
  void fail_at(std::int64_t allocation) {
    failing_ = allocation;
    num_allocations_ = 0;
  }
  std::int64_t num_allocations() const { return num_allocations_; }

 private:
  c10::Allocator& allocator_;
  std::atomic<std::int64_t> num_allocations_ = 0;
  std::atomic<std::int64_t> failing_ = -1;
};

class ReferencePassTest : public ::testing::Test {
 protected:
  ReferencePassTest()
      : device_(make_cpu_device({})),
        world_(join_world()),
        store_(GroupKind::kJudged, test::draw_groups(1, 6, 20, GroupKind::kJudged)) {
    config_.objective.kind = ObjectiveKind::kKto;
    config_.precision.compute = Precision::kFloat32;
    MicroBatch pieces;
    std::vector<std::int64_t> examples;
    for (std::int64_t e = 0; e < store_.info().num_examples; ++e) {
      pieces.push_back({.example = e, .length = store_.lengths()[static_cast<std::size_t>(e)]});
      examples.push_back(e);
    }
    packed_.push_back(flatten(store_, pieces, LossNormalization()));
    mismatched_ = mismatched_batches(store_, examples, {.max_length = 20, .max_tokens = 200});
  }

  std::unique_ptr<ShardedModel> make_model(std::uint64_t seed) {
    DecoderConfig decoder = small_decoder();
    decoder.num_layers = 1;
    decoder.vocab_size = 1152;
    auto model = std::make_unique<ShardedModel>(
        make_decoder(decoder, decoder_options(config_, decoder)), *device_,
        ShardingCommunicators{world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
        sharding_options(config_));
    ModelSource source;
    source.decoder = std::move(decoder);
    load_weights(source, seed, *model, world_->control());
    return model;
  }

  std::vector<DeviceBatch> upload_all(std::span<const PackedBatch> packed) const {
    std::vector<DeviceBatch> batches;
    for (const PackedBatch& batch : packed) batches.push_back(upload(batch, *device_));
    return batches;
  }

  Config config_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  test::GroupStore store_;
  std::vector<PackedBatch> packed_;
  std::vector<PackedBatch> mismatched_;
};

TEST_F(ReferencePassTest, ReturnsThatMemoryRanOutWhereverItDoes) {
  const auto policy = make_model(1);
  const auto reference = make_model(2);
  ReferencePass pass(*policy, {reference.get()}, /*has_divergence=*/true);
  FailingAllocator allocator(*c10::GetCPUAllocator());
  const auto run = [&](std::int64_t failing) {
    std::vector<DeviceBatch> batches = upload_all(packed_);
    std::vector<DeviceBatch> mismatched = upload_all(mismatched_);
    allocator.fail_at(failing);
    const auto failure = pass.run(batches, mismatched, store_.info().num_examples);
    EXPECT_EQ(failure.has_value(), failing >= 0) << "allocation " << failing;
    const std::int64_t count = allocator.num_allocations();
    allocator.fail_at(-1);
    if (failing < 0) {
      EXPECT_NE(batches.front().groups.kl.item<float>(), 0);
    }
    return count;
  };
  run(-1);  // the first run also fills what later ones find
  const std::int64_t count = run(-1);
  constexpr std::int64_t kLast = 16;  // those of the divergence's sums
  for (std::int64_t at = 0; at < count; at += at < count - kLast ? 23 : 1) {
    EXPECT_NO_THROW(run(at)) << "allocation " << at << " of " << count;
  }
  run(-1);
}

}  // namespace
}  // namespace packtrain::reference_pass_test
