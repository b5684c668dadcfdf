// Which rank has which matrix, and what ranks send each other.
#include "parallel/sharding/matrix_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/parallel/sharding/toy_blocks.h"

namespace packtrain::test {
namespace {

// Matrices alone.
bool is_matrix(const ParameterSpec& spec) {
  return spec.shape.size() == 2;
}

ProcessMesh mesh_of(int num_ranks, int shard_size, int rank) {
  return {.replicate = {num_ranks / shard_size, rank / shard_size},
          .shard = {shard_size, rank % shard_size}};
}

UnitTable toy_table(int shard_size, int hidden = 96) {
  return make_unit_table(make_toy_blocks({.num_layers = 5, .hidden = hidden, .bias = true}),
                         shard_size);
}

TEST(MatrixPlan, EachMatrixHasOneOwner) {
  const UnitTable table = toy_table(2);
  const auto placed = place_matrices(table, is_matrix, 2);
  ASSERT_EQ(placed.size(), 5U);
  std::set<std::pair<int, std::size_t>> seen;
  for (const PlacedMatrix& matrix : placed) {
    EXPECT_TRUE(seen.insert({matrix.unit, matrix.segment}).second);
    EXPECT_EQ(matrix.matrix.numel(), 96 * 96);
  }
}

TEST(MatrixPlan, OwnersHaveEqualCosts) {
  const UnitTable table = toy_table(1);
  std::map<int, double> cost;
  for (const PlacedMatrix& placed : place_matrices(table, is_matrix, 3)) {
    cost[placed.owner] += orthogonalisation_cost(placed.matrix.rows, placed.matrix.columns);
  }
  ASSERT_EQ(cost.size(), 3U);
  const double one = orthogonalisation_cost(96, 96);
  for (const auto& [rank, sum] : cost) EXPECT_LE(sum, 2 * one) << rank;
}

TEST(MatrixPlan, ACostCountsTheSmallerDimensionAsTheGramMatrix) {
  EXPECT_EQ(orthogonalisation_cost(2, 3), 4 * 2 * 2 * 3 + 2 * 2 * 2 * 2);
  EXPECT_EQ(orthogonalisation_cost(3, 2), orthogonalisation_cost(2, 3));
}

TEST(MatrixPlan, WhatARankSendsIsWhatTheOtherReceives) {
  for (const int shard_size : {2, 4}) {
    const UnitTable table = toy_table(shard_size);
    const auto placed = place_matrices(table, is_matrix, 4);
    std::vector<std::vector<ExchangeBucket>> of_rank;
    for (int rank = 0; rank < 4; ++rank) {
      of_rank.push_back(exchange_buckets(table, placed, mesh_of(4, shard_size, rank)));
      ASSERT_EQ(of_rank.back().size(), 5U);
    }
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (from / shard_size != to / shard_size) continue;
        for (std::size_t b = 0; b < 5; ++b) {
          EXPECT_EQ(of_rank[from][b].send_counts[to % shard_size],
                    of_rank[to][b].receive_counts[from % shard_size]);
          EXPECT_EQ(of_rank[from][b].exchanges, of_rank[to][b].exchanges);
        }
      }
    }
  }
}

TEST(MatrixPlan, AllRanksTogetherOrthogonaliseEachElementOnce) {
  const UnitTable table = toy_table(2);
  const auto placed = place_matrices(table, is_matrix, 4);
  std::int64_t numel = 0;
  for (int rank = 0; rank < 4; ++rank) {
    for (const ExchangeBucket& bucket : exchange_buckets(table, placed, mesh_of(4, 2, rank))) {
      std::int64_t in_batches = 0;
      for (const MatrixBatch& batch : bucket.batches) {
        in_batches += batch.count * batch.rows * batch.columns;
      }
      EXPECT_EQ(bucket.incoming_numel(), in_batches);
      numel += in_batches;
    }
  }
  EXPECT_EQ(numel, 5 * 96 * 96);
}

bool equal_batches(const MatrixBatch& a, const MatrixBatch& b) {
  return std::tie(a.begin, a.count, a.rows, a.columns) ==
         std::tie(b.begin, b.count, b.rows, b.columns);
}

// Three units, each with matrices of several shapes, a stack of them and a vector.
UnitTable table_of_stacks(int shard_size) {
  UnitTable table;
  for (const char* name : {"a", "b", "c"}) {
    const std::string unit = name;
    const std::vector<ParameterSpec> parameters = {{.name = unit + ".wide", .shape = {40, 96}},
                                                   {.name = unit + ".wide_too", .shape = {40, 96}},
                                                   {.name = unit + ".bias", .shape = {500}},
                                                   {.name = unit + ".stack", .shape = {7, 96, 64}}};
    table.units.push_back({.name = unit,
                           .parts = {{.layout = make_flat_layout(parameters, shard_size)}},
                           .blocks = {}});
  }
  return table;
}

void expect_loads_of_buckets(int num_ranks, int shard_size) {
  const UnitTable table = table_of_stacks(shard_size);
  const auto placed = place_matrices(table, [](const ParameterSpec&) { return true; }, num_ranks);
  ASSERT_EQ(placed.size(), 27U);
  const ExchangeLoads loads(table, placed, shard_size);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto buckets = exchange_buckets(table, placed, mesh_of(num_ranks, shard_size, rank));
    const std::vector<ExchangeLoad> got = loads.of(rank);
    ASSERT_EQ(got.size(), buckets.size());
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const ExchangeLoad wanted = buckets[b].load();
      EXPECT_EQ(got[b].outgoing_numel, wanted.outgoing_numel);
      EXPECT_EQ(got[b].incoming_numel, wanted.incoming_numel);
      EXPECT_TRUE(std::ranges::equal(got[b].batches, wanted.batches, equal_batches));
    }
  }
}

TEST(MatrixPlan, LoadsOfAllRanksAreThoseOfTheirBuckets) {
  expect_loads_of_buckets(1, 1);
  expect_loads_of_buckets(3, 1);
  expect_loads_of_buckets(4, 2);
  expect_loads_of_buckets(6, 3);
  expect_loads_of_buckets(8, 8);
}

TEST(MatrixPlan, AMatrixGoesToTheFirstOfTheRanksWithTheLeastCost) {
  const UnitTable table = toy_table(1);
  std::vector<int> owners;
  for (const PlacedMatrix& placed : place_matrices(table, is_matrix, 3)) {
    owners.push_back(placed.owner);
  }
  EXPECT_EQ(owners, (std::vector<int>{0, 1, 2, 0, 1}));
}

TEST(MatrixPlan, NothingIsChosenWithoutMatrices) {
  const UnitTable table = toy_table(2);
  const auto none = place_matrices(table, [](const ParameterSpec&) { return false; }, 2);
  EXPECT_TRUE(exchange_buckets(table, none, mesh_of(2, 2, 0)).empty());
  EXPECT_TRUE(ExchangeLoads(table, none, 2).of(1).empty());
}

}  // namespace
}  // namespace packtrain::test
