// Errors of gradients, and the tensor of a fused parameter that they are in.
#include "training/verification/gradient_error.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace packtrain {
namespace {

// Two experts of rows [gate, up, up], each of 2 elements; a rank owns elements 2 to 9.
OwnedGradient gradient(std::int64_t begin, std::int64_t numel) {
  return {.parameter = "gate_up",
          .begin = begin,
          .values = at::arange(begin, begin + numel, at::kFloat),
          .row_numel = 2,
          .parts = {{"gate", 0, 1, 2, 3}, {"up", 1, 2, 2, 3}}};
}

TEST(GradientError, NamesTheTensorThatMostOfItIsIn) {
  const ReferenceGradients reference({gradient(0, 12)});
  for (std::int64_t element = 2; element < 10; ++element) {
    OwnedGradient got = gradient(2, 8);
    got.values[element - 2] += 1;
    const bool in_gate = element / 2 % 3 == 0;
    EXPECT_EQ(reference.most_of_it(got), in_gate ? " (most of it in gate)" : " (most of it in up)")
        << element;
    EXPECT_GT(reference.error_of(got), 0);
  }
}

TEST(GradientError, NamesNoTensorOfAParameterThatIsOne) {
  OwnedGradient one = gradient(0, 12);
  one.parts.pop_back();
  const ReferenceGradients reference({one});
  EXPECT_EQ(reference.most_of_it(one), "");
}

}  // namespace
}  // namespace packtrain
