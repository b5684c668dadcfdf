// Runs the tests of this executable on all ranks together. A failure on any rank fails them all.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/parallel/communicators/world_fixture.h"

namespace packtrain {
namespace {

World* the_world = nullptr;

}  // namespace

World& test_world() {
  return *the_world;
}

}  // namespace packtrain

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto world = packtrain::join_world();
  packtrain::the_world = world.get();
  if (world->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    class Failures final : public testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (!result.failed()) return;
        std::fprintf(stderr, "[rank %d] %s:%d: %s\n", packtrain::test_world().rank(),
                     result.file_name(), result.line_number(), result.message());
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures);  // gtest owns it
  }
  std::int64_t failed = RUN_ALL_TESTS();
  world->control().all_reduce(&failed, 1, packtrain::DataType::kInt64, packtrain::ReduceOp::kMax,
                              nullptr);
  return static_cast<int>(failed);
}
