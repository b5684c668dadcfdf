#include "framework/core/error.h"
#include "models/ops/column_factors/column_factors.h"
#include "models/ops/column_factors/column_factors_launch.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {

void multiply_columns_cuda_(const at::Tensor& rows, const std::vector<ColumnFactor>& factors) {
  if (rows.stride(1) != 1) {
    throw Error(ErrorCategory::kInternal, "column factors: want rows whose columns are dense");
  }
  ColumnFactorsArguments arguments;
  static_assert(std::size(ColumnFactorsArguments{}.factors) == kMaxColumnFactors);
  arguments.rows = rows.data_ptr();
  arguments.num_rows = rows.size(0);
  arguments.num_columns = rows.size(1);
  arguments.stride = rows.stride(0);
  std::int64_t end = 0;
  for (const auto& [width, factor] : factors) {
    end += width;
    arguments.ends[arguments.num_factors] = end;
    arguments.factors[arguments.num_factors] = static_cast<float>(factor);
    ++arguments.num_factors;
  }
  arguments.dtype = float_type_of(rows, "column factors");
  launch_column_factors(arguments, current_stream(rows));
}

}  // namespace packtrain
