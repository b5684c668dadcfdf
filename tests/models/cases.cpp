#include "tests/models/cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>

#include <cstdlib>
#include <limits>

#include "framework/core/random.h"

namespace packtrain {

std::vector<OperatorCase> operator_cases() {
  std::vector<at::Device> devices = {at::Device(at::kCPU)};
  const char* wanted = std::getenv("PACKTRAIN_TEST_DEVICE");
  if (wanted != nullptr && std::string(wanted) == "cuda") {
    devices.emplace_back(at::kCUDA, 0);
  }
  std::vector<OperatorCase> cases;
  for (const at::Device& device : devices) {
    cases.push_back({device, at::kFloat, 1e-5});
    cases.push_back({device, at::kBFloat16, 2e-2});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<OperatorCase>& info) {
  return std::string(info.param.device.is_cuda() ? "cuda" : "cpu") +
         (info.param.dtype == at::kFloat ? "_float32" : "_bfloat16");
}

at::Tensor random_tensor(const OperatorCase& on, at::IntArrayRef shape, std::string_view name) {
  const CounterRandom random(1, name);
  const at::Tensor x = at::empty(shape, at::TensorOptions(at::kFloat));
  float* out = x.data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    out[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  }
  return x.to(on.device, on.dtype);
}

Parameter random_parameter(const OperatorCase& on, at::IntArrayRef shape, std::string_view name) {
  const at::Tensor value = random_tensor(on, shape, name);
  return {value, at::full_like(value, std::numeric_limits<double>::quiet_NaN()), false};
}

Parameter random_parameter(const OperatorCase& on, at::IntArrayRef shape, std::string_view name,
                           at::ScalarType grad_dtype) {
  Parameter parameter = random_parameter(on, shape, name);
  parameter.grad = parameter.grad.to(grad_dtype);
  return parameter;
}

std::vector<const Parameter*> pointers_to(const std::vector<Parameter>& parameters) {
  std::vector<const Parameter*> pointers;
  for (const Parameter& parameter : parameters) pointers.push_back(&parameter);
  return pointers;
}

at::Tensor int_tensor(const OperatorCase& on, const std::vector<std::int32_t>& values) {
  return at::tensor(values, at::TensorOptions(at::kInt)).to(on.device);
}

std::vector<std::int32_t> some_ids(std::int64_t count, std::int32_t bound) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * 7 + i * i * 3) % bound));
  }
  return ids;
}

void poison_free_memory(const OperatorCase& on) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<at::Tensor> held;  // all live together, so that none reuses another's memory
  for (std::int64_t numel = 64; numel <= (std::int64_t{1} << 20); numel *= 2) {
    for (int i = 0; i < 2; ++i) {
      held.push_back(at::full({numel}, kNan, on.options().dtype(at::kFloat)));
    }
  }
}

at::Tensor wide_copy(const at::Tensor& x) {
  return x.detach().to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor reference_leaf(const at::Tensor& x) {
  return x.detach().to(at::kCPU, at::kDouble, false, /*copy=*/true).set_requires_grad(true);
}

void expect_close(const at::Tensor& actual, const at::Tensor& reference, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.sizes(), reference.sizes()) << what;
  const at::Tensor want = reference.detach().to(at::kCPU, at::kDouble);
  const at::Tensor got = actual.detach().to(at::kCPU, at::kDouble);
  if (want.numel() == 0) {
    return;
  }
  const double scale = want.abs().max().item<double>();
  const double error = (got - want).abs().max().item<double>();
  // Written so that NaN fails.
  EXPECT_TRUE(error <= tolerance * scale + 1e-12)
      << what << ": error " << error << ", largest value " << scale;
}

}  // namespace packtrain
