// Low-rank parts of weights, from which PiSSA and LoftQ begin.
#include "models/adapters/low_rank.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/pow.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "models/decoder/initialize.h"

namespace packtrain {
namespace {

constexpr std::int64_t kRank = 6;
constexpr double kScale = 0.75;

at::Tensor normal(const char* name, std::int64_t rows, std::int64_t columns) {
  const at::Tensor values = at::empty({rows * columns}, at::kFloat);
  initialize({name, {rows, columns}, {Initialization::Kind::kNormal, 1.0}}, 3, 0, values);
  return values.view({rows, columns});
}

at::Tensor orthonormal_columns(const char* name, std::int64_t rows, std::int64_t columns) {
  return std::get<0>(at::linalg_qr(normal(name, rows, columns)));
}

// Its singular values are 1, 1/2, 1/4, ...
at::Tensor decaying(std::int64_t outputs, std::int64_t inputs, std::int64_t num) {
  const at::Tensor s = at::pow(0.5, at::arange(num, at::TensorOptions(at::kFloat)));
  return at::mm(orthonormal_columns("u", outputs, num).mul(s),
                orthonormal_columns("v", inputs, num).t());
}

at::Tensor product(const LowRankPart& part) {
  return at::mm(part.b, part.a).mul(kScale);
}

double norm_of(const at::Tensor& values) {
  return values.norm().item<double>();
}

TEST(LowRank, ThePartIsTheNearestMatrixOfItsRank) {
  for (const auto& [outputs, inputs] : std::vector<std::pair<int, int>>{{40, 24}, {24, 40}}) {
    const at::Tensor matrix = normal("w", outputs, inputs);
    const at::Tensor s = std::get<1>(at::linalg_svd(matrix, false));
    const LowRankPart part = largest_part(matrix, kRank, kScale, {});
    EXPECT_NEAR(norm_of(matrix.sub(product(part))), norm_of(s.narrow(0, kRank, 24 - kRank)), 1e-4);
  }
}

TEST(LowRank, BothMatricesHaveTheRootsOfTheSingularValuesByTheScale) {
  const at::Tensor matrix = decaying(40, 24, 12);
  const LowRankPart part = largest_part(matrix, kRank, kScale, {});
  const at::Tensor s = at::pow(0.5, at::arange(kRank, at::TensorOptions(at::kFloat))).div(kScale);
  EXPECT_TRUE(at::mm(part.a, part.a.t()).allclose(s.diag(), 1e-4, 1e-6));
  EXPECT_TRUE(at::mm(part.b.t(), part.b).allclose(s.diag(), 1e-4, 1e-6));
}

TEST(LowRank, TheLargestElementOfEachRowIsPositive) {
  for (const std::optional<std::int64_t> num_iterations : {std::optional<std::int64_t>(), {2}}) {
    const LowRankPart part = largest_part(normal("w", 40, 24), kRank, kScale, {num_iterations});
    EXPECT_TRUE(std::get<0>(part.a.max(1)).equal(std::get<0>(part.a.abs().max(1))));
  }
}

TEST(LowRank, IterationsFindTheValuesOfTheWholeDecomposition) {
  const at::Tensor matrix = decaying(200, 120, 60);
  const LowRankPart whole = largest_part(matrix, kRank, kScale, {});
  const LowRankPart fast = largest_part(matrix, kRank, kScale, {4, 1, "w"});
  EXPECT_TRUE(fast.a.allclose(whole.a, 1e-3, 1e-5));
  EXPECT_TRUE(fast.b.allclose(whole.b, 1e-3, 1e-5));
}

TEST(LowRank, MoreIterationsAreNearer) {
  const at::Tensor matrix = normal("w", 200, 120);
  const double least = norm_of(matrix.sub(product(largest_part(matrix, kRank, kScale, {}))));
  const auto error = [&](std::int64_t num_iterations) {
    return norm_of(
               matrix.sub(product(largest_part(matrix, kRank, kScale, {num_iterations, 1, "w"})))) -
           least;
  };
  EXPECT_LT(error(2), 0.5 * error(0));
  EXPECT_LT(error(16), 0.5 * error(2));
}

TEST(LowRank, RandomValuesDependOnSeedAndNameAlone) {
  const at::Tensor matrix = normal("w", 40, 24);
  const auto part = [&](std::uint64_t seed, const char* name) {
    return largest_part(matrix, kRank, kScale, {0, seed, name}).a;
  };
  EXPECT_TRUE(part(1, "q").equal(part(1, "q")));
  EXPECT_FALSE(part(1, "q").equal(part(2, "q")));
  EXPECT_FALSE(part(1, "q").equal(part(1, "k")));
}

// Rows 0 to 7 and 11 to 15 of a weight [18, 13] have updates.
struct Updates {
  LoraModules modules = {{"q", 0, 8, 3, 0.5}, {"v", 11, 5, 2, 2.0}};
  at::Tensor a = normal("a", 5, 13);
  std::vector<at::Tensor> b = {normal("b1", 8, 3), normal("b2", 5, 2)};
  at::Tensor weight = normal("w", 18, 13);

  at::Tensor subtracted(std::int64_t begin, std::int64_t numel) const {
    const at::Tensor values = weight.view({-1}).narrow(0, begin, numel).clone();
    subtract_updates(modules, a, b, begin, values);
    return values;
  }
};

TEST(LowRank, UpdatesAreSubtractedFromTheRowsOfTheirModules) {
  const Updates updates;
  const at::Tensor expected = updates.weight.clone();
  expected.narrow(0, 0, 8).sub_(at::mm(updates.b[0], updates.a.narrow(0, 0, 3)), 0.5);
  expected.narrow(0, 11, 5).sub_(at::mm(updates.b[1], updates.a.narrow(0, 3, 2)), 2.0);
  const at::Tensor found = updates.subtracted(0, 18 * 13).view({18, 13});
  EXPECT_TRUE(found.allclose(expected, 1e-5, 1e-5));
  EXPECT_TRUE(found.narrow(0, 8, 3).equal(updates.weight.narrow(0, 8, 3)));
  EXPECT_TRUE(found.narrow(0, 16, 2).equal(updates.weight.narrow(0, 16, 2)));
}

TEST(LowRank, RangesHaveTheBitsOfTheWhole) {
  const Updates updates;
  const at::Tensor whole = updates.subtracted(0, 18 * 13);
  std::int64_t begin = 0;
  for (const std::int64_t numel : {5, 1, 40, 13, 60, 100, 15}) {
    EXPECT_TRUE(updates.subtracted(begin, numel).equal(whole.narrow(0, begin, numel))) << begin;
    begin += numel;
  }
  EXPECT_EQ(begin, 18 * 13);
}

}  // namespace
}  // namespace packtrain
