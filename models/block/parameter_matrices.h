// The matrices of a parameter: what an optimizer orthogonalises as one.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

// Elements [begin, begin + rows * columns) of the flattened parameter, row by row.
struct ParameterMatrix {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  std::int64_t numel() const { return rows * columns; }
  bool operator==(const ParameterMatrix&) const = default;
};

// A weight [rows, columns] is one matrix, or one for each of its ParameterSpec::fused_rows. A
// weight of experts [experts, rows, columns] has these for each expert. Vectors have none, and so
// have weights with one row or one column, and those with ParameterSpec::is_matrix false. Throws
// Error(kInternal) when fused_rows are not all rows.
std::vector<ParameterMatrix> parameter_matrices(const ParameterSpec& parameter);

}  // namespace packtrain
