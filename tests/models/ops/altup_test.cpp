// Alternating updates against their formulas in float64.
#include "models/ops/altup/altup.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::altup_test {
namespace {

class AltUp : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, AltUp, testing::ValuesIn(operator_cases()), case_name);

constexpr RmsNormOptions kNorm = {.epsilon = 1e-3, .weight_offset = 0.5};
const GemmTiming kTiming = {};

// Rows, and shapes. They have no rows, one copy, odd widths, and more columns than a warp has
// vectors. The last but one has more copies than kernels take.
struct Size {
  std::int64_t rows;
  AltUpShape shape;
};
const Size kSizes[] = {{0, {3, 8, 0}},   {1, {2, 1, 1}},   {33, {4, 70, 0}}, {70, {3, 7, 2}},
                       {19, {4, 64, 1}}, {5, {4, 264, 3}}, {3, {4, 520, 0}}, {6, {1, 48, 0}},
                       {9, {5, 65, 4}},  {7, {8, 134, 6}}, {1, {4, 333, 0}}, {2, {9, 40, 8}},
                       {513, {4, 16, 2}}};

template <class Check>
void for_each_size(Check check) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(std::to_string(size.rows) + " rows of " + std::to_string(size.shape.num_copies) +
                 " x " + std::to_string(size.shape.hidden));
    check(size);
  }
}

at::Tensor copies_of(const at::Tensor& rows, const AltUpShape& shape) {
  return rows.view({rows.size(0), shape.num_copies, shape.hidden});
}

// Numbers as tanh gives them.
at::Tensor random_modalities(const OperatorCase& on, const Size& size) {
  const OperatorCase wide{on.device, at::kFloat, 0};
  return at::tanh(random_tensor(wide, {size.rows, size.shape.num_copies}, "modalities"));
}

at::Tensor clipped_leaf(const at::Tensor& leaf, double clip) {
  return clip > 0 ? leaf.clamp(-clip, clip) : leaf;
}

TEST_P(AltUp, ModalitiesMatchTheirFormula) {
  const OperatorCase& on = GetParam();
  for_each_size([&](const Size& size) {
    const AltUpShape& shape = size.shape;
    const at::Tensor x = random_tensor(on, {size.rows, shape.hidden}, "x");
    const Parameter norm = random_parameter(on, {shape.hidden}, "norm");
    const Parameter weight = random_parameter(on, {shape.num_copies, shape.hidden}, "weight");
    const AltUpRouter router{norm, weight, kNorm, kTiming};
    const at::Tensor x_leaf = reference_leaf(x);
    const at::Tensor norm_leaf = reference_leaf(norm.value);
    const at::Tensor weight_leaf = reference_leaf(weight.value);
    const at::Tensor normed = x_leaf * at::rsqrt((x_leaf * x_leaf).mean(-1, true) + kNorm.epsilon) *
                              (norm_leaf + kNorm.weight_offset);
    const at::Tensor want =
        at::tanh(at::matmul(normed, weight_leaf.t()) / static_cast<double>(shape.hidden));
    const OperatorCase wide{on.device, at::kFloat, 0};
    const at::Tensor grad = random_tensor(wide, {size.rows, shape.num_copies}, "grad");
    const auto grads =
        torch::autograd::grad({want}, {x_leaf, norm_leaf, weight_leaf}, {wide_copy(grad)});

    poison_free_memory(on);
    const at::Tensor m = altup_modalities(x, router);
    EXPECT_EQ(m.scalar_type(), at::kFloat);
    expect_close(m, want, on.tolerance, "modalities");
    expect_close(altup_modalities_backward(grad, x, m, router), grads[0], on.tolerance, "d x");
    expect_close(norm.grad, grads[1], on.tolerance, "d norm");
    expect_close(weight.grad, grads[2], on.tolerance, "d weight");
  });
}

// The gradient of P passes the clip.
void expect_prediction(const OperatorCase& on, const Size& size, double clip) {
  const AltUpShape& shape = size.shape;
  const std::int64_t copies = shape.num_copies;
  const at::Tensor rows = random_tensor(on, {size.rows, copies * shape.hidden}, "rows");
  const at::Tensor modalities = random_modalities(on, size);
  const Parameter weight = random_parameter(on, {copies * copies, copies}, "weight");
  const at::Tensor leaf = reference_leaf(rows);
  const at::Tensor modality_leaf = reference_leaf(modalities);
  const at::Tensor weight_leaf = reference_leaf(clipped_leaf(weight.value, clip));
  const at::Tensor mixing =
      at::matmul(modality_leaf, weight_leaf.t()).view({size.rows, copies, copies});
  const at::Tensor x = copies_of(leaf, shape);
  const at::Tensor want = (x + at::einsum("tji,tih->tjh", {mixing, x})).view(rows.sizes());
  const at::Tensor grad = random_tensor(on, rows.sizes(), "grad");
  const auto grads =
      torch::autograd::grad({want}, {leaf, modality_leaf, weight_leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  const at::Tensor y = altup_predict(rows, modalities, {weight, clip}, shape);
  EXPECT_EQ(y.scalar_type(), on.dtype);
  expect_close(y, want, on.tolerance, "predictions");
  const AltUpPredictGradients got =
      altup_predict_backward(grad, rows, modalities, {weight, clip}, shape);
  expect_close(got.rows, grads[0], on.tolerance, "d rows");
  expect_close(got.modalities, grads[1], on.tolerance, "d modalities");
  expect_close(weight.grad, grads[2], on.tolerance, "d weight");
}

TEST_P(AltUp, PredictionsMatchTheirFormula) {
  for_each_size([&](const Size& size) {
    expect_prediction(GetParam(), size, 0);
    expect_prediction(GetParam(), size, 0.8);
  });
}

// The gradient of Q does not pass the clip.
void expect_correction(const OperatorCase& on, const Size& size, double clip) {
  const AltUpShape& shape = size.shape;
  const std::int64_t copies = shape.num_copies;
  const at::Tensor predictions =
      random_tensor(on, {size.rows, copies * shape.hidden}, "predictions");
  const at::Tensor activated = random_tensor(on, {size.rows, shape.hidden}, "activated");
  const at::Tensor modalities = random_modalities(on, size);
  const Parameter weight = random_parameter(on, {copies, copies}, "weight");
  const at::Tensor p_leaf = reference_leaf(predictions);
  const at::Tensor a_leaf = reference_leaf(activated);
  const at::Tensor m_leaf = reference_leaf(modalities);
  const at::Tensor weight_leaf = reference_leaf(weight.value);
  const at::Tensor factors = at::matmul(m_leaf, clipped_leaf(weight_leaf, clip).t()) + 1.0;
  const at::Tensor p = copies_of(p_leaf, shape);
  const at::Tensor innovation = a_leaf - p.select(1, shape.active);
  const at::Tensor want =
      (p + factors.unsqueeze(2) * innovation.unsqueeze(1)).view(predictions.sizes());
  const at::Tensor grad = random_tensor(on, predictions.sizes(), "grad");
  const auto grads =
      torch::autograd::grad({want}, {p_leaf, a_leaf, m_leaf, weight_leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  expect_close(altup_correct(predictions, activated, modalities, {weight, clip}, shape), want,
               on.tolerance, "corrected");
  const AltUpCorrectGradients got =
      altup_correct_backward_(grad, predictions, activated, modalities, {weight, clip}, shape);
  expect_close(grad, grads[0], on.tolerance, "d predictions");
  expect_close(got.activated, grads[1], on.tolerance, "d activated");
  expect_close(got.modalities, grads[2], on.tolerance, "d modalities");
  expect_close(weight.grad, grads[3], on.tolerance, "d weight");
}

TEST_P(AltUp, CorrectionsMatchTheirFormula) {
  for_each_size([&](const Size& size) {
    expect_correction(GetParam(), size, 0);
    expect_correction(GetParam(), size, 0.8);
  });
}

// Predict, correct and their backward compute these of one input.
std::vector<at::Tensor> outputs_of(const OperatorCase& on, const Size& size) {
  const AltUpShape& shape = size.shape;
  const std::int64_t copies = shape.num_copies;
  const at::Tensor rows = random_tensor(on, {size.rows, copies * shape.hidden}, "rows");
  const at::Tensor activated = random_tensor(on, {size.rows, shape.hidden}, "activated");
  const at::Tensor grad = random_tensor(on, rows.sizes(), "grad");
  const at::Tensor modalities = random_modalities(on, size);
  const Parameter prediction = random_parameter(on, {copies * copies, copies}, "prediction");
  const Parameter correction = random_parameter(on, {copies, copies}, "correction");
  const AltUpPredictGradients predicted =
      altup_predict_backward(grad, rows, modalities, {prediction, 0.8}, shape);
  const AltUpCorrectGradients corrected =
      altup_correct_backward_(grad, rows, activated, modalities, {correction, 0.8}, shape);
  return {altup_predict(rows, modalities, {prediction, 0.8}, shape),
          predicted.rows,
          predicted.modalities,
          prediction.grad,
          altup_correct(rows, activated, modalities, {correction, 0.8}, shape),
          grad,
          corrected.activated,
          corrected.modalities,
          correction.grad};
}

TEST_P(AltUp, TwoRunsGiveTheSameBits) {
  for_each_size([&](const Size& size) {
    const std::vector<at::Tensor> one = outputs_of(GetParam(), size);
    const std::vector<at::Tensor> two = outputs_of(GetParam(), size);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(two[i])) << i;
  });
}

TEST_P(AltUp, CopiesThatAreNotTheActiveOneKeepTheirGradientBits) {
  const OperatorCase& on = GetParam();
  for_each_size([&](const Size& size) {
    const at::Tensor grad =
        random_tensor(on, {size.rows, size.shape.num_copies * size.shape.hidden}, "grad");
    const at::Tensor before = copies_of(grad, size.shape);
    const at::Tensor after = copies_of(outputs_of(on, size)[5], size.shape);
    for (std::int64_t copy = 0; copy < size.shape.num_copies; ++copy) {
      if (copy == size.shape.active) continue;
      EXPECT_TRUE(after.select(1, copy).equal(before.select(1, copy))) << copy;
    }
  });
}

void expect_magnitude(const OperatorCase& on, const at::Tensor& p, const at::Tensor& target) {
  const at::Tensor p_leaf = reference_leaf(p);
  const at::Tensor x_leaf = reference_leaf(target);
  const at::Tensor own = (p_leaf * p_leaf).mean(-1, true);
  const at::Tensor least = at::zeros_like(own) + 1e-5;
  const at::Tensor want =
      p_leaf * at::sqrt((x_leaf * x_leaf).mean(-1, true)) / at::sqrt(at::maximum(own, least));
  const at::Tensor grad = random_tensor(on, p.sizes(), "grad");
  const auto grads = torch::autograd::grad({want}, {p_leaf, x_leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  expect_close(match_magnitude(p, target), want, on.tolerance, "y");
  const MagnitudeGradients got = match_magnitude_backward(grad, p, target);
  EXPECT_EQ(got.p.scalar_type(), on.dtype);
  // A row of one element keeps its magnitude, so that only rounding is left of its gradient.
  const double offset = p.size(1) == 1 ? 1 : 0;
  expect_close(wide_copy(got.p) + offset, grads[0] + offset, on.tolerance, "d p");
  expect_close(got.target, grads[1], on.tolerance, "d target");
}

TEST_P(AltUp, MagnitudesMatchTheirFormula) {
  const OperatorCase& on = GetParam();
  for_each_size([&](const Size& size) {
    const at::Tensor p = random_tensor(on, {size.rows, size.shape.hidden}, "p");
    const at::Tensor target = random_tensor(on, {size.rows, size.shape.hidden}, "target");
    expect_magnitude(on, p, target);
    expect_magnitude(on, p * 1e-4, target);  // below the least magnitude
  });
}

TEST_P(AltUp, MagnitudesTakeGradientsWithGapsBetweenRows) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t width : {7, 264}) {
    const at::Tensor p = random_tensor(on, {9, width}, "p");
    const at::Tensor target = random_tensor(on, {9, width}, "target");
    const at::Tensor grad = random_tensor(on, {9, 3 * width}, "grad").narrow(1, width, width);
    const MagnitudeGradients got = match_magnitude_backward(grad, p, target);
    const MagnitudeGradients want = match_magnitude_backward(grad.contiguous(), p, target);
    EXPECT_TRUE(got.p.equal(want.p)) << width;
    EXPECT_TRUE(got.target.equal(want.target)) << width;
  }
}

TEST_P(AltUp, RowsOfZerosHaveFiniteGradients) {
  const OperatorCase& on = GetParam();
  const at::Tensor zeros = at::zeros({3, 9}, on.options());
  const at::Tensor p = random_tensor(on, {3, 9}, "p");
  const MagnitudeGradients got = match_magnitude_backward(p, p, zeros);
  expect_close(got.p, zeros, 0, "d p");
  expect_close(got.target, zeros, 0, "d target");
}

TEST_P(AltUp, CopiesAreContiguousAndTheirOwn) {
  const OperatorCase& on = GetParam();
  for_each_size([&](const Size& size) {
    const AltUpShape& shape = size.shape;
    const at::Tensor rows = random_tensor(on, {size.rows, shape.num_copies * shape.hidden}, "rows");
    std::vector<at::Tensor> copies;
    for (std::int64_t i = 0; i < shape.num_copies; ++i) {
      copies.push_back(altup_copy(rows, shape, i));
      EXPECT_TRUE(copies.back().is_contiguous());
    }
    expect_close(at::cat(copies, 1), rows, 0, "all copies");
    if (size.rows == 0) return;
    EXPECT_NE(copies.front().data_ptr(), rows.data_ptr());
  });
}

}  // namespace
}  // namespace packtrain::altup_test
