// Sums the data of all ranks: the part of a reduce-scatter that copy engines cannot do.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct RankSumArguments {
  const void* parts = nullptr;  // [num_ranks, bytes of a part], the ranks' parts in order
  void* sum = nullptr;          // bytes of a part
  DataType dtype = DataType::kFloat32;
  int num_ranks = 1;
  std::int64_t num_bytes = 0;  // of a part: a multiple of 16, as all addresses are
};

// Sums in float32, in the order of the ranks, with one rounding: the same bits in every run. Uses
// few multiprocessors, because GEMMs need them at the same time. `stream` is a cudaStream_t. Throws
// Error(kDevice) when the launch fails.
void launch_rank_sum(const RankSumArguments& arguments, void* stream);

}  // namespace packtrain
