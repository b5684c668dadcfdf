// Run with 1, 2 and 4 ranks: collectives that do not match are errors before they are called.
#include "parallel/communicators/checked_communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "framework/core/error.h"
#include "parallel/communicators/collective_log.h"
#include "parallel/communicators/forwarding_communicator.h"
#include "tests/parallel/communicators/world_fixture.h"

namespace packtrain {
namespace {

// Leaves out all-reduces while `skips` is set.
class SkippingCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override {
    if (!skips) real().all_reduce(buffer, count, type, op, stream);
  }

  bool skips = false;
};

std::unique_ptr<SkippingCommunicator> checked() {
  return std::make_unique<SkippingCommunicator>(
      check_collectives(test_world().control().split(0, test_world().rank()),
                        test_world().control().split(0, test_world().rank()), "tests"));
}

std::string error_of(Communicator& communicator, std::size_t count) {
  std::array<float, 64> values{};
  try {
    const CollectiveLabel label("layers.3");
    communicator.all_reduce(values.data(), count, DataType::kFloat32, ReduceOp::kSum, nullptr);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kInternal);
    return error.message();
  }
  return "";
}

TEST(CheckedCommunicator, LetsThroughWhatMatches) {
  const auto communicator = checked();
  std::array<std::int64_t, 2> values = {1, test_world().rank()};
  communicator->all_reduce(values.data(), 2, DataType::kInt64, ReduceOp::kSum, nullptr);
  EXPECT_EQ(values[0], test_world().size());
  const auto half = communicator->split(test_world().rank() % 2, test_world().rank());
  values = {1, 1};
  half->all_reduce(values.data(), 2, DataType::kInt64, ReduceOp::kMax, nullptr);
  EXPECT_EQ(values[1], 1);
  communicator->barrier();
}

TEST(CheckedCommunicator, NamesBothRanksAndWhatEachIsAboutToDo) {
  if (test_world().size() == 1) return;  // alone, everything matches
  const auto communicator = checked();
  const std::string found = error_of(*communicator, test_world().rank() == 1 ? 32 : 64);
  EXPECT_NE(found.find("rank 1 of it is about to do call 1, all_reduce (sum) of 32"),
            std::string::npos)
      << found;
  EXPECT_NE(found.find("rank 0: call 1, all_reduce (sum) of 64"), std::string::npos) << found;
  EXPECT_NE(found.find("for layers.3"), std::string::npos) << found;
}

TEST(CheckedCommunicator, NamesARankThatLeftOneOut) {
  if (test_world().size() == 1) return;
  const auto communicator = checked();
  communicator->skips = test_world().rank() == 1;
  const std::string first = error_of(*communicator, 64);
  communicator->skips = false;
  if (test_world().rank() == 1) {
    EXPECT_EQ(first, "");  // it was not made
    EXPECT_NE(error_of(*communicator, 16).find("of 16"), std::string::npos);
  } else {
    EXPECT_NE(first.find("rank 1 of it is about to do call 1, all_reduce (sum) of 16"),
              std::string::npos)
        << first;
  }
}

}  // namespace
}  // namespace packtrain
