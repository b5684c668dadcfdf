#include "models/ops/column_factors/column_factors.h"

#include <c10/util/StringUtil.h>

#include "framework/core/error.h"

namespace packtrain {
namespace {

void check_factors(const at::Tensor& rows, const std::vector<ColumnFactor>& factors) {
  std::int64_t width = 0;
  for (const ColumnFactor& one : factors) width += one.width;
  if (rows.dim() == 2 && width == rows.size(1) && factors.size() <= kMaxColumnFactors) return;
  throw Error(ErrorCategory::kInternal,
              c10::str("column factors: got rows ", rows.sizes(), " and ", factors.size(),
                       " factors of ", width, " columns, wanted rows [T, W] and at most ",
                       kMaxColumnFactors, " factors of W columns"));
}

}  // namespace

void multiply_columns_(const at::Tensor& rows, const std::vector<ColumnFactor>& factors) {
  check_factors(rows, factors);
  if (rows.is_cuda()) return multiply_columns_cuda_(rows, factors);
  std::int64_t begin = 0;
  for (const auto& [width, factor] : factors) {
    if (factor != 1) rows.narrow(1, begin, width).mul_(factor);
    begin += width;
  }
}

}  // namespace packtrain
