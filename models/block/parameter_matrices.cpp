#include "models/block/parameter_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/core/error.h"

namespace packtrain {

std::vector<ParameterMatrix> parameter_matrices(const ParameterSpec& parameter) {
  const auto& shape = parameter.shape;
  if (shape.size() < 2 || !parameter.is_matrix) return {};
  const std::int64_t rows = shape[shape.size() - 2];
  const std::int64_t columns = shape.back();
  if (std::min(rows, columns) <= 1) return {};
  std::vector<std::int64_t> parts = parameter.fused_rows;
  if (parts.empty()) parts.push_back(rows);
  if (std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != rows) {
    throw Error(
        ErrorCategory::kInternal,
        fmt::format("the matrices of '{}' do not have its {} rows in sum", parameter.name, rows));
  }
  std::vector<ParameterMatrix> matrices;
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert < parameter.numel() / (rows * columns); ++expert) {
    for (const std::int64_t own : parts) {
      matrices.push_back({begin, own, columns});
      begin += own * columns;
    }
  }
  return matrices;
}

}  // namespace packtrain
