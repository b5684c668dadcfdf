// The chunks of the gated delta rule's sequences.
#include "models/ops/delta_rule/chunk_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace packtrain {
namespace {

const std::vector<std::int32_t> kBoundaries = {0, 10, 10, 150, 214};

TEST(DeltaRuleTable, ChunksCoverAllRowsAndCrossNoBoundary) {
  const DeltaRuleTable table = delta_rule_table(kBoundaries, 1);
  std::vector<std::vector<std::int32_t>> rows;
  for (const DeltaRuleChunkRows& chunk : table.chunks) {
    rows.push_back({chunk.first_row, chunk.num_rows});
  }
  const std::vector<std::vector<std::int32_t>> want = {
      {10, 64}, {74, 64}, {138, 12}, {0, 10}, {150, 64}};
  EXPECT_EQ(rows, want);
}

TEST(DeltaRuleTable, NeighboursOfASequenceShareASlot) {
  const DeltaRuleTable table = delta_rule_table(kBoundaries, 1);
  std::vector<std::vector<std::int32_t>> slots;
  for (const DeltaRuleChunkRows& chunk : table.chunks) {
    slots.push_back({chunk.slot_before, chunk.slot_after});
  }
  const std::vector<std::vector<std::int32_t>> want = {
      {-1, 0}, {0, 1}, {1, -1}, {-1, -1}, {-1, -1}};
  EXPECT_EQ(slots, want);
  EXPECT_EQ(table.num_slots, 2);
}

TEST(DeltaRuleTable, LongSequencesAreFirstAndEmptyOnesAreLeftOut) {
  const DeltaRuleTable table = delta_rule_table(kBoundaries, 1);
  std::vector<std::vector<std::int32_t>> sequences;
  for (const DeltaRuleSequence& each : table.sequences) {
    sequences.push_back({each.first_chunk, each.num_chunks});
  }
  const std::vector<std::vector<std::int32_t>> want = {{0, 3}, {3, 1}, {4, 1}};
  EXPECT_EQ(sequences, want);
}

TEST(DeltaRuleTable, NoRowsHaveNoChunks) {
  const std::vector<std::int32_t> boundaries = {0, 0};
  const DeltaRuleTable table = delta_rule_table(boundaries, 1);
  EXPECT_TRUE(table.chunks.empty());
  EXPECT_TRUE(table.sequences.empty());
}

TEST(DeltaRuleTable, GroupsHaveWholeSequencesAndAboutAsManyChunks) {
  const DeltaRuleTable table = delta_rule_table(kBoundaries, 2);
  const std::vector<std::int32_t> want = {0, 3, 5};
  EXPECT_EQ(table.group_begins, want);
}

constexpr DeltaRuleWork kWork = {32, 128, 132, 128};

TEST(DeltaRuleDivision, OneLongSequenceHasManyBlocksOfFewColumns) {
  const std::vector<std::int32_t> chunks = {128};
  const DeltaRuleDivision division = divide_delta_rule(chunks, kWork);
  EXPECT_EQ(division.columns, 32);
  EXPECT_EQ(division.groups, 1);
}

TEST(DeltaRuleDivision, ManyShortSequencesHaveGroupsOfWideBlocks) {
  const std::vector<std::int32_t> chunks(80, 2);
  const DeltaRuleDivision division = divide_delta_rule(chunks, kWork);
  EXPECT_EQ(division.columns, 128);
  EXPECT_EQ(division.groups, 4);
}

// DeltaRule.OtherSequencesOfManyHeadsChangeNoBit has these on a GPU.
TEST(DeltaRuleDivision, SomeSequencesOfOneChunkHaveWideBlocks) {
  std::vector<std::int32_t> chunks(16, 1);
  chunks.push_back(2);
  EXPECT_EQ(divide_delta_rule(chunks, kWork).columns, 128);
  EXPECT_EQ(divide_delta_rule(std::vector<std::int32_t>{2}, kWork).columns, 32);
}

TEST(DeltaRuleDivision, ColumnsAndGroupsHaveTheirLimits) {
  DeltaRuleWork work = kWork;
  work.max_columns = 64;
  const std::vector<std::int32_t> chunks(3, 2);
  const DeltaRuleDivision division = divide_delta_rule(chunks, work);
  EXPECT_LE(division.columns, 64);
  EXPECT_LE(division.groups, 3);
}

}  // namespace
}  // namespace packtrain
