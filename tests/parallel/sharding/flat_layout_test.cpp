// Places of parameters in flat buffers and units, by rank, optimizer group and encoding.
#include "parallel/sharding/flat_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "framework/core/error.h"
#include "parallel/sharding/owned_layout.h"
#include "parallel/sharding/unit_table.h"
#include "tests/parallel/sharding/toy_blocks.h"

namespace packtrain::test {
namespace {

TEST(FlatLayout, SplitsEveryParameterOverTheRanksWithoutGapOrOverlap) {
  const std::vector<ParameterSpec> specs = {
      {"a", {1000, 7}}, {"b", {5}, {}, OptimizerGroup::kNoDecay}, {"c", {333, 3}}};
  for (const int ranks : {1, 2, 3, 7}) {
    const FlatLayout layout = make_flat_layout(specs, ranks);
    for (const Segment& segment : layout.segments) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const OwnedRange owned = owned_range(layout, segment, rank);
        if (owned.numel == 0) continue;
        EXPECT_EQ(owned.parameter_begin, next);
        next += owned.numel;
      }
      EXPECT_EQ(next, segment.spec.numel()) << segment.spec.name << " on " << ranks << " ranks";
    }
  }
}

TEST(FlatLayout, GroupRangesCoverTheShardAndAgreeWithTheParameters) {
  const std::vector<ParameterSpec> specs = {{"norm", {64}, {}, OptimizerGroup::kNoDecay},
                                            {"weight", {100, 100}}};
  for (const int ranks : {1, 2, 5}) {
    const FlatLayout layout = make_flat_layout(specs, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t covered = 0;
      for (const GroupRange& run : group_ranges(layout, rank)) {
        EXPECT_EQ(run.begin, covered);
        covered += run.numel;
        for (const Segment& segment : layout.segments) {
          const OwnedRange owned = owned_range(layout, segment, rank);
          const std::int64_t begin = std::max(owned.shard_begin, run.begin);
          const std::int64_t end = std::min(owned.shard_begin + owned.numel, run.begin + run.numel);
          if (begin < end) {
            EXPECT_EQ(run.group, segment.spec.group) << segment.spec.name;
          }
        }
      }
      EXPECT_EQ(covered, layout.shard_numel);
    }
  }
}

TEST(FlatLayout, TheParametersOfAnAdapterAreOneRange) {
  std::vector<ParameterSpec> specs;
  for (const int adapter : {0, 1, 0, 1}) {
    specs.push_back({.name = std::to_string(specs.size()), .shape = {100, 30}, .adapter = adapter});
  }
  const auto ranges = group_ranges(make_flat_layout(specs, 1), 0);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].adapter, 0);
  EXPECT_EQ(ranges[1].adapter, 1);
  EXPECT_GE(ranges[0].numel, 2 * 3000);
}

ParameterSpec encoded(DataType type) {
  return {.name = "a", .shape = {100}, .encoding = {type}};
}

// Checkpoints do not depend on it, but random bits and sums of gradients do.
TEST(FlatLayout, OfFloat32AndBFloat16IsAlignedTo128And2048Elements) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    ParameterSpec second = encoded(type);
    second.name = "b";
    const FlatLayout layout = make_flat_layout(std::vector{encoded(type), second}, 3);
    EXPECT_EQ(layout.segments[1].offset, 128);
    EXPECT_EQ(layout.shard_numel, 2048);
    EXPECT_EQ(layout.numel, 3 * 2048);
    EXPECT_EQ(numel_without_padding(layout), 256);
  }
}

TEST(FlatLayout, OfSmallerElementsIsAlignedToAsManyBytes) {
  ParameterSpec second = encoded(DataType::kUInt8);
  second.name = "b";
  const FlatLayout layout = make_flat_layout(std::vector{encoded(DataType::kUInt8), second}, 3);
  EXPECT_EQ(layout.segments[1].offset, 256);
  EXPECT_EQ(layout.shard_numel, 4096);
  EXPECT_EQ(layout.size_bytes(), 3 * 4096);
}

constexpr ParameterEncoding kNf4{DataType::kBFloat16, ParameterEncoding::Format::kNf4};

TEST(FlatLayout, ShardsOfNf4AreWholeGroupsAndPages) {
  // Tensors of one group and a block, and of 99 groups.
  const std::vector<ParameterPart> parts = {{"q", 0, 257}, {"k", 257, 99 * 256}};
  const std::vector<ParameterSpec> specs = {
      {.name = "a", .shape = {257 + 99 * 256, 64}, .encoding = kNf4, .parts = parts},
      {.name = "b", .shape = {30, 64}, .encoding = kNf4}};
  for (const int ranks : {1, 2, 5}) {
    const FlatLayout layout = make_flat_layout(specs, ranks);
    EXPECT_EQ(layout.segments[0].numel, (2 + 99) * kNf4GroupBytes);
    EXPECT_EQ(layout.segments[1].offset, 101 * kNf4GroupBytes);
    EXPECT_EQ(layout.segments[1].numel, kNf4GroupBytes);
    EXPECT_EQ(layout.shard_numel % kNf4GroupBytes, 0);
    EXPECT_EQ(layout.shard_numel % 4096, 0);
    EXPECT_EQ(layout.size_bytes(), ranks * layout.shard_numel);
  }
}

constexpr ParameterEncoding kFp8{DataType::kBFloat16, ParameterEncoding::Format::kFp8};

// Products read codes and scales where they are: at multiples of 16 bytes.
TEST(FlatLayout, WeightsIn8BitsHaveAScaleAfterTheirCodes) {
  const std::vector<ParameterSpec> specs = {{.name = "a", .shape = {33, 16}, .encoding = kFp8},
                                            {.name = "b", .shape = {30, 64}, .encoding = kFp8}};
  for (const int ranks : {1, 2, 5}) {
    const FlatLayout layout = make_flat_layout(specs, ranks);
    EXPECT_EQ(layout.segments[0].numel, 33 * 16 + 16);
    EXPECT_EQ(layout.segments[1].offset, 3 * 256);
    EXPECT_EQ(layout.segments[1].numel, 30 * 64 + 16);
    EXPECT_EQ(layout.shard_numel % 4096, 0);
    EXPECT_EQ(layout.size_bytes(), ranks * layout.shard_numel);
  }
}

const ToyOptions kMixed{
    .num_layers = 2, .frozen_layers = {1}, .layer_encoding = {DataType::kBFloat16}, .bias = true};

TEST(UnitTable, PartsHaveOneEncodingEachAndTrainableOnesAreFirst) {
  const UnitTable table = make_unit_table(make_toy_blocks(kMixed), 2);
  for (const Unit& unit : table.units) {
    const auto by_trainable = [](const UnitPart& part) { return part.trainable; };
    EXPECT_TRUE(std::ranges::is_partitioned(unit.parts, by_trainable)) << unit.name;
    for (const UnitPart& part : unit.parts) {
      for (const Segment& segment : part.layout.segments) {
        EXPECT_EQ(segment.spec.encoding, part.layout.encoding) << segment.spec.name;
        EXPECT_EQ(segment.spec.trainable, part.trainable) << segment.spec.name;
      }
    }
  }
  const Unit& trained = table.units[1];
  const Unit& frozen = table.units[2];
  EXPECT_EQ(trained.trainable_parts().size(), 2U);
  EXPECT_EQ(trained.trainable_shard_numel(), 2 * 2048);
  EXPECT_EQ(frozen.trainable_parts().size(), 1U);
  EXPECT_EQ(frozen.trainable_numel(), 2 * 2048);
  EXPECT_EQ(frozen.gathered_bytes(), 2 * 2048 * (2 + 4));
}

TEST(UnitTable, NumbersTheScalesOfTrainedWeightsFirst) {
  ToyOptions toy = kMixed;
  toy.in_fp8 = true;
  toy.num_layers = 3;
  const UnitTable table = make_unit_table(make_toy_blocks(toy), 2);
  EXPECT_EQ(table.num_trained_scales, 2);
  EXPECT_EQ(table.num_scales, 3);
  std::map<std::string, int> numbers;
  for (const Unit& unit : table.units) {
    for (const UnitPart& part : unit.parts) {
      for (const Segment& segment : part.layout.segments) {
        numbers[segment.spec.name] = segment.scale;
      }
    }
  }
  EXPECT_EQ(numbers, (std::map<std::string, int>{{"first.weight", -1},
                                                 {"layer0.bias", -1},
                                                 {"layer0.weight", 0},
                                                 {"layer1.bias", -1},
                                                 {"layer1.weight", 2},
                                                 {"layer2.bias", -1},
                                                 {"layer2.weight", 1},
                                                 {"last.weight", -1}}));
}

TEST(UnitTable, WeightsInFp8AreAPartOfTheirOwnOfOneByteAnElement) {
  ToyOptions toy = kMixed;
  toy.in_fp8 = true;
  toy.hidden = 64;
  for (const ParameterEncoding encoding :
       {ParameterEncoding{}, ParameterEncoding{DataType::kBFloat16}}) {
    toy.layer_encoding = encoding;
    const UnitTable table = make_unit_table(make_toy_blocks(toy), 2);
    for (const std::size_t u : {1U, 2U}) {  // trained and frozen
      const Unit& unit = table.units[u];
      ASSERT_EQ(unit.parts.size(), 2U);
      EXPECT_TRUE(unit.gathers_codes());
      for (const UnitPart& part : unit.parts) {
        const Segment& segment = part.layout.segments.front();
        EXPECT_EQ(part.layout.gathers_codes(), segment.spec.in_fp8) << segment.spec.name;
      }
      // Each rank has 4096 bytes of 64 x 64 codes, and of a bias in float32.
      EXPECT_EQ(unit.gathered_bytes(), 2 * 4096 + 2 * 2048 * 4);
    }
    EXPECT_FALSE(table.units[0].gathers_codes());
  }
}

TEST(FlatLayout, APartOfAWeightInFp8IsWholeRowsOf256Elements) {
  std::vector<ParameterSpec> specs = {{"a", {48, 16}}, {"b", {16, 16}}, {"c", {112, 144}}};
  for (ParameterSpec& spec : specs) spec.in_fp8 = true;
  for (const int ranks : {1, 2, 3, 7}) {
    const FlatLayout layout = make_flat_layout(specs, ranks);
    EXPECT_EQ(layout.gathered_bytes(), layout.numel);
    EXPECT_EQ(layout.shard_numel % 4096, 0);
    for (const Segment& segment : layout.segments) {
      for (int rank = 0; rank < ranks; ++rank) {
        const OwnedRange owned = owned_range(layout, segment, rank);
        EXPECT_EQ(owned.numel % 256, 0) << segment.spec.name;
        EXPECT_EQ(owned.shard_begin % 256, 0) << segment.spec.name;
      }
    }
  }
}

TEST(UnitTable, AnEncodedWeightHasNoScale) {
  ToyOptions toy = kMixed;
  toy.in_fp8 = true;
  toy.frozen_layers = {0, 1};
  toy.layer_encoding = kNf4;
  EXPECT_EQ(make_unit_table(make_toy_blocks(toy), 1).num_scales, 0);
}

TEST(UnitTable, PlacesNameTheParametersOfTheirBlock) {
  const auto blocks = make_toy_blocks(kMixed);
  const UnitTable table = make_unit_table(blocks, 2);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Unit& unit = table.units[static_cast<std::size_t>(table.unit_of_block[b])];
    const auto& parameters = blocks[b]->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ParameterPlace place = table.places[b][i];
      EXPECT_EQ(unit.parts[place.part].layout.segments[place.segment].spec.name,
                parameters[i].name);
    }
  }
}

TEST(OwnedLayout, HaveABufferForEachEncodingAndFloat32OnesAreTheMaster) {
  const UnitTable table = make_unit_table(make_toy_blocks(kMixed), 2);
  const OwnedLayout owned = make_owned_layout(table);
  // first, layer0 with two parts, layer1 with a bias, last.
  EXPECT_EQ(owned.trainable_numel, 5 * 2048);
  ASSERT_EQ(owned.buffers.size(), 3U);
  EXPECT_FALSE(owned.buffers[0].is_master());
  EXPECT_EQ(owned.buffers[0].size_bytes(), 2048 * 2);
  EXPECT_TRUE(owned.buffers[1].is_master());
  EXPECT_EQ(owned.buffers[1].size_bytes(), 5 * 2048 * 4);
  EXPECT_FALSE(owned.buffers[2].trainable);
  EXPECT_EQ(owned.buffers[2].size_bytes(), 2048 * 2);
  for (std::size_t u = 0; u < table.units.size(); ++u) {
    for (const OwnedPart& part : owned.parts[u]) {
      if (!owned.buffers[part.buffer].is_master()) continue;
      EXPECT_EQ(part.begin, part.state_begin);
    }
  }
}

TEST(OwnedLayout, WeightsThatAreTheirOwnMastersNeedNoOther) {
  UnitTable table = make_unit_table(make_toy_blocks(kMixed), 2);
  for (Unit& unit : table.units) {
    for (UnitPart& part : unit.parts) {
      for (Segment& segment : part.layout.segments) segment.spec.own_master = part.trainable;
    }
  }
  const OwnedLayout owned = make_owned_layout(table);
  EXPECT_TRUE(owned.has_own_masters());
  EXPECT_EQ(owned.trainable_numel, 5 * 2048);
  ASSERT_EQ(owned.buffers.size(), 3U);
  EXPECT_TRUE(owned.buffers[0].is_master() && owned.buffers[1].is_master());
  EXPECT_EQ(owned.buffers[0].size_bytes(), 2048 * 2);
  EXPECT_EQ(owned.buffers[1].size_bytes(), 4 * 2048 * 4);
  EXPECT_FALSE(owned.buffers[2].is_master());
  EXPECT_EQ(owned.master_bytes(), 2048 * 2 + 4 * 2048 * 4);
  EXPECT_EQ(owned.trainable_copy_bytes(), 0);
}

}  // namespace
}  // namespace packtrain::test
