#include "models/ops/fp8/fp8.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr std::int64_t kRowsAtOnce = 16;

std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

constexpr std::int64_t kMatrixScales = 4;  // numbers of the scale of one of several matrices

void check_cast(const at::Tensor& x, const at::Tensor& scale) {
  const bool is_float = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  const std::int64_t num_scales = x.dim() == 3 ? kMatrixScales * x.size(0) : 2;
  if ((x.dim() == 2 || x.dim() == 3) && x.size(-1) % kFp8Alignment == 0 && is_float &&
      scale.scalar_type() == at::kFloat && scale.numel() == num_scales && scale.is_contiguous()) {
    return;
  }
  throw Error(ErrorCategory::kInternal,
              c10::str("fp8: got ", x.toString(), " ", x.sizes(), " and a scale ", scale.sizes(),
                       ", wanted [M, K] or [E, M, K] of float32 or bfloat16, K a multiple of ",
                       kFp8Alignment, ", and a float32 scale [2] or [E, ", kMatrixScales, "]"));
}

// Calls use(pointer to the elements), of float or bfloat16.
template <typename Use>
void with_elements(const at::Tensor& x, const Use& use) {
  if (x.scalar_type() == at::kFloat) return use(x.const_data_ptr<float>());
  return use(x.const_data_ptr<c10::BFloat16>());
}

// Bits of numbers without a sign have the order of the numbers, and NaN is above all.
template <typename T>
std::uint32_t amax_bits(const T* values, std::int64_t numel) {
  std::uint32_t amax = 0;
  for (std::int64_t i = 0; i < numel; ++i) {
    amax = std::max(amax, bits_of(static_cast<float>(values[i])) & 0x7FFFFFFFU);
  }
  return amax;
}

void write_scale(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast) {
  if (cast.has_known_scale) return;
  auto* values = scale.data_ptr<float>();
  std::uint32_t amax = 0;
  with_elements(x, [&](const auto* elements) { amax = amax_bits(elements, x.numel()); });
  values[0] = float_of(fp8::scale_of(amax, cast.format).factor);
  values[1] = float_of(amax);
}

struct Codes {
  std::uint8_t* rows;
  std::uint8_t* columns;
  std::int64_t stride;  // of columns
};

std::uint8_t* codes_of(const at::Tensor& x) {
  return x.defined() ? static_cast<std::uint8_t*>(x.data_ptr()) : nullptr;
}

template <typename T>
void cast_row(const T* values, std::int64_t row, std::int64_t width, float multiplier,
              Fp8Format format, const Codes& to) {
  for (std::int64_t i = 0; i < width; ++i) {
    const std::uint8_t code =
        fp8::encode(bits_of(static_cast<float>(values[row * width + i]) * multiplier), format);
    if (to.rows != nullptr) to.rows[row * width + i] = code;
    if (to.columns != nullptr) to.columns[i * to.stride + row] = code;
  }
}

at::Tensor matrix_of(const at::Tensor& all, std::int64_t e) {
  return all.defined() ? all.select(0, e) : all;
}

void cast_on_cpu(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast,
                 const Fp8Copies& copies) {
  for (std::int64_t e = 0; x.dim() == 3 && e < x.size(0); ++e) {
    cast_on_cpu(x.select(0, e), scale.select(0, e), cast,
                {matrix_of(copies.rows, e), matrix_of(copies.columns, e)});
  }
  if (x.dim() == 3) return;
  write_scale(x, scale, cast);
  const std::uint32_t amax = bits_of(scale.const_data_ptr<float>()[1]);
  const float multiplier = float_of(fp8::scale_of(amax, cast.format).multiplier);
  const Codes to{codes_of(copies.rows), codes_of(copies.columns), fp8_padded(x.size(0))};
  with_elements(x, [&](const auto* elements) {
    at::parallel_for(0, x.size(0), kRowsAtOnce, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        cast_row(elements, row, x.size(1), multiplier, cast.format, to);
      }
    });
  });
}

}  // namespace

at::Tensor make_fp8_scale(const at::Tensor& x) {
  const at::TensorOptions options = x.options().dtype(at::kFloat);
  return x.dim() == 3 ? at::empty({x.size(0), kMatrixScales}, options) : at::empty({2}, options);
}

at::Tensor make_fp8_amax(const at::Tensor& x) {
  return x.is_cuda() ? make_fp8_amax_cuda(x) : at::Tensor();
}

at::ScalarType fp8_scalar_type(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
}

Fp8Copies fp8_cast(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast) {
  check_cast(x, scale);
  const auto options = x.options().dtype(fp8_scalar_type(cast.format));
  std::vector<std::int64_t> of_columns = x.sizes().vec();
  of_columns[x.dim() - 2] = x.size(-1);
  of_columns[x.dim() - 1] = fp8_padded(x.size(-2));
  Fp8Copies copies;
  if (cast.rows) copies.rows = at::empty(x.sizes(), options);
  if (cast.columns) {
    // The kernel writes the padding itself.
    copies.columns = x.is_cuda() ? at::empty(of_columns, options) : at::zeros(of_columns, options);
  }
  fp8_cast_into(x, scale, cast, copies);
  return copies;
}

void fp8_cast_into(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast,
                   const Fp8Copies& copies) {
  check_cast(x, scale);
  const at::Tensor values = x.contiguous();
  if (x.is_cuda()) return fp8_cast_cuda(values, scale, cast, copies);
  cast_on_cpu(values, scale, cast, copies);
}

void check_fp8_device(at::Device device) {
  if (device.is_cuda()) check_fp8_device_cuda(device);
}

bool has_fp8_products(at::Device device) {
  return device.is_cuda() && has_fp8_products_cuda(device);
}

}  // namespace packtrain
