// Batches on the device: the arrays of groups.
#include "training/steps/upload.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "collators/flattening.h"
#include "samplers/planner.h"
#include "tests/samplers/group_options.h"

namespace packtrain::upload_test {
namespace {

class OnesOfStore final : public RowValues {
 public:
  explicit OnesOfStore(std::size_t count) : ones_(count, 1.0F) {}
  std::span<const float> of(std::int64_t /*example*/) const override { return ones_; }

 private:
  std::vector<float> ones_;
};

test::GroupStore store_with_columns() {
  std::vector<test::MemoryGroup> groups = {test::pair(3, 2, 2)};
  for (test::DrawnMember& one : groups[0].members) one.columns = {{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}};
  groups[0].margin = 2;
  return {GroupKind::kPairs, groups, {}, {"advantage", "old_log_prob"}};
}

at::Tensor floats(std::initializer_list<float> values) {
  return at::tensor(std::vector<float>(values));
}

TEST(Upload, GivesTheGroupsOfABatchWithTheirColumnsByName) {
  const test::GroupStore store = store_with_columns();
  const StepPlan plan = Planner(store, test::group_options(20)).plan(0);
  const OnesOfStore reference(2);
  const PackedBatch packed =
      flatten(store, plan.ranks[0][0], loss_normalization(plan, Normalize::kTokens),
              {.reference = &reference});
  const auto device = make_cpu_device({});
  const GroupRows rows = upload(packed, *device).groups;
  ASSERT_TRUE(rows.is_defined());
  EXPECT_TRUE(at::equal(rows.num_rows, at::tensor(std::vector<std::int64_t>{2, 2})));
  EXPECT_TRUE(at::equal(rows.roles, at::tensor(std::vector<std::int32_t>{0, 1})));
  EXPECT_TRUE(at::equal(rows.group_weights, floats({1, 1})));
  EXPECT_TRUE(at::equal(rows.margins, floats({2, 2})));
  EXPECT_TRUE(at::equal(rows.reference, floats({1, 1, 1, 1})));
  ASSERT_EQ(rows.columns.size(), 2U);
  EXPECT_TRUE(at::equal(rows.columns.at("advantage"), floats({3, 4, 3, 4})));
  EXPECT_TRUE(at::equal(rows.columns.at("old_log_prob"), floats({8, 9, 8, 9})));
}

TEST(Upload, GivesEmptyGroupsOfARankWithoutExamples) {
  const test::GroupStore store = store_with_columns();
  const PackedBatch packed = flatten(store, {}, {});
  const auto device = make_cpu_device({});
  const GroupRows rows = upload(packed, *device).groups;
  ASSERT_TRUE(rows.is_defined());
  for (const at::Tensor& part : {rows.num_rows, rows.group_weights, rows.margins, rows.reference,
                                 rows.columns.at("advantage")}) {
    EXPECT_EQ(part.numel(), 0);
  }
}

TEST(Upload, GivesNoGroupsOfAPlainStore) {
  const test::MemoryStore store({{{1, 2}, {0, 1}}});
  const PackedBatch packed = flatten(store, {{.length = 2}}, {});
  const auto device = make_cpu_device({});
  EXPECT_FALSE(upload(packed, *device).groups.is_defined());
}

}  // namespace
}  // namespace packtrain::upload_test
