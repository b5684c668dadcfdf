#include "models/ops/fp8/fp8_block.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <bit>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8.h"

namespace packtrain {
namespace {

void check_block_cast(const at::Tensor& x, bool is_weight) {
  const bool is_float = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  if (x.dim() == 2 && x.size(1) % kFp8Alignment == 0 && is_float &&
      (!is_weight || x.size(0) % kFp8Alignment == 0)) {
    return;
  }
  throw Error(ErrorCategory::kInternal,
              c10::str("fp8: got ", x.toString(), " ", x.sizes(), ", wanted [M, K] of float32 or ",
                       "bfloat16, ", is_weight ? "M and K multiples of " : "K a multiple of ",
                       kFp8Alignment));
}

// Where the codes and scales of a matrix go. Both have a stride for rows and one for columns; of
// scales these are rows and columns of groups.
struct Target {
  std::uint8_t* codes;
  std::int64_t row_stride;
  std::int64_t column_stride;
  float* scales;
  std::int64_t scale_row_stride;
  std::int64_t scale_column_stride;
};

struct Extent {
  std::int64_t first_row;
  std::int64_t num_rows;
  std::int64_t first_column;
  std::int64_t num_columns;
};

// Casts numbers that share a scale, and returns its factor.
template <typename T>
float cast_group(const T* values, std::int64_t width, const Extent& of, const Target& to) {
  const auto each = [&](const auto& use) {
    for (std::int64_t row = of.first_row; row < of.first_row + of.num_rows; ++row) {
      for (std::int64_t i = of.first_column; i < of.first_column + of.num_columns; ++i) {
        use(row, i, static_cast<float>(values[row * width + i]));
      }
    }
  };
  std::uint32_t amax = 0;
  each([&](std::int64_t, std::int64_t, float x) {
    amax = std::max(amax, std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
  });
  const fp8::ScaleBits scale = fp8::scale_of(amax, Fp8Format::kE4M3);
  const auto multiplier = std::bit_cast<float>(scale.multiplier);
  each([&](std::int64_t row, std::int64_t i, float x) {
    to.codes[row * to.row_stride + i * to.column_stride] =
        fp8::encode(std::bit_cast<std::uint32_t>(x * multiplier), Fp8Format::kE4M3);
  });
  return std::bit_cast<float>(scale.factor);
}

template <typename T>
void cast_groups(const T* values, at::IntArrayRef sizes, std::int64_t group_rows,
                 std::int64_t group_columns, const Target& to) {
  const std::int64_t num_rows = (sizes[0] + group_rows - 1) / group_rows;  // of groups
  at::parallel_for(0, num_rows, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t column = 0; column * group_columns < sizes[1]; ++column) {
        const Extent of{row * group_rows, std::min(group_rows, sizes[0] - row * group_rows),
                        column * group_columns,
                        std::min(group_columns, sizes[1] - column * group_columns)};
        to.scales[row * to.scale_row_stride + column * to.scale_column_stride] =
            cast_group(values, sizes[1], of, to);
      }
    }
  });
}

void cast_groups(const at::Tensor& x, std::int64_t group_rows, std::int64_t group_columns,
                 const Target& to) {
  if (x.scalar_type() == at::kFloat) {
    cast_groups(x.const_data_ptr<float>(), x.sizes(), group_rows, group_columns, to);
  } else {
    cast_groups(x.const_data_ptr<c10::BFloat16>(), x.sizes(), group_rows, group_columns, to);
  }
}

// The strides of codes as they are, or transposed.
Target target_of(const Fp8Operand& operand, bool codes_transposed, bool scales_transposed) {
  const std::int64_t stride = operand.codes.size(1);
  const std::int64_t scale_stride = operand.scale.size(1);
  return {static_cast<std::uint8_t*>(operand.codes.data_ptr()),
          codes_transposed ? 1 : stride,
          codes_transposed ? stride : 1,
          operand.scale.data_ptr<float>(),
          scales_transposed ? 1 : scale_stride,
          scales_transposed ? scale_stride : 1};
}

void group_cast_on_cpu(const at::Tensor& x, const Fp8GroupCast& cast, const Fp8Groups& groups) {
  if (cast.rows) cast_groups(x, 1, kFp8BlockSize, target_of(groups.rows, false, true));
  if (cast.columns == Fp8ColumnScales::kGroups) {
    cast_groups(x, kFp8BlockSize, 1, target_of(groups.columns, true, false));
  }
  if (cast.columns == Fp8ColumnScales::kTensor) {
    const Fp8Copies copies =
        fp8_cast(x, groups.columns.scale, {.format = cast.tensor_format, .columns = true});
    groups.columns.codes.copy_(copies.columns);
  }
}

// The kernels write the padding themselves.
at::Tensor make_codes(const at::Tensor& x, at::IntArrayRef sizes, Fp8Format format) {
  const at::TensorOptions options = x.options().dtype(fp8_scalar_type(format));
  return x.is_cuda() ? at::empty(sizes, options) : at::zeros(sizes, options);
}

// Those of padding are 1.
at::Tensor make_scales(const at::Tensor& x, at::IntArrayRef sizes, bool are_all_written) {
  const at::TensorOptions options = x.options().dtype(at::kFloat);
  return are_all_written ? at::empty(sizes, options) : at::ones(sizes, options);
}

Fp8Groups make_groups(const at::Tensor& x, const Fp8GroupCast& cast) {
  const std::int64_t padded = fp8_padded(x.size(0));
  const std::int64_t width = x.size(1);
  Fp8Groups groups;
  if (cast.rows) {
    groups.rows = {make_codes(x, {padded, width}, Fp8Format::kE4M3),
                   make_scales(x, {num_fp8_blocks(width), padded}, x.is_cuda()),
                   Fp8Scaling::kBlockWise1x128};
  }
  if (cast.columns == Fp8ColumnScales::kGroups) {
    groups.columns = {make_codes(x, {width, padded}, Fp8Format::kE4M3),
                      make_scales(x, {num_fp8_blocks(padded), width}, true),
                      Fp8Scaling::kBlockWise1x128};
  }
  if (cast.columns == Fp8ColumnScales::kTensor) {
    groups.columns = {make_codes(x, {width, padded}, cast.tensor_format), make_fp8_scale(x)};
  }
  return groups;
}

}  // namespace

Fp8Groups fp8_group_cast(const at::Tensor& x, const Fp8GroupCast& cast) {
  check_block_cast(x, /*is_weight=*/false);
  Fp8Groups groups = make_groups(x, cast);
  if (x.is_cuda()) {
    fp8_group_cast_cuda(x.contiguous(), cast, groups);
  } else {
    group_cast_on_cpu(x.contiguous(), cast, groups);
  }
  return groups;
}

Fp8Operand fp8_block_cast(const at::Tensor& weight, bool transposed) {
  check_block_cast(weight, /*is_weight=*/true);
  const std::int64_t rows = weight.size(transposed ? 1 : 0);
  const std::int64_t columns = weight.size(transposed ? 0 : 1);
  const std::int64_t num_blocks = num_fp8_blocks(columns);
  const std::int64_t stride = fp8_scale_stride(num_blocks);
  Fp8Operand to{make_codes(weight, {rows, columns}, Fp8Format::kE4M3),
                make_scales(weight, {num_fp8_blocks(rows), stride}, stride == num_blocks),
                Fp8Scaling::kBlockWise128x128};
  if (weight.is_cuda()) {
    fp8_block_cast_cuda(weight.contiguous(), transposed, to);
  } else {
    cast_groups(weight.contiguous(), kFp8BlockSize, kFp8BlockSize,
                target_of(to, transposed, transposed));
  }
  return to;
}

void check_fp8_block_device(at::Device device) {
  if (device.is_cuda()) check_fp8_block_device_cuda(device);
}

}  // namespace packtrain
