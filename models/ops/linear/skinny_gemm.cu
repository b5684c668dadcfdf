#include <algorithm>
#include <limits>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear/skinny_gemm_kernel.cuh"
#include "models/ops/linear/skinny_gemm_launch.h"

namespace packtrain {
namespace {

constexpr int kSumThreads = 256;

// Calls `use` with the shape of a kernel.
template <int kRank, SkinnyGemmOutputs kOutputs, typename Use>
void with_columns(int column_warps, const Use& use) {
  switch (column_warps) {
    case 2:
      return use(device::SkinnyGemmShape<kRank, 2, kOutputs>{});
    case 4:
      return use(device::SkinnyGemmShape<kRank, 4, kOutputs>{});
    default:
      return use(device::SkinnyGemmShape<kRank, 8, kOutputs>{});
  }
}
template <SkinnyGemmOutputs kOutputs, typename Use>
void with_rank(int rank, int column_warps, const Use& use) {
  switch (rank) {
    case 16:
      return with_columns<16, kOutputs>(column_warps, use);
    case 32:
      return with_columns<32, kOutputs>(column_warps, use);
    case 48:
      return with_columns<48, kOutputs>(column_warps, use);
    default:
      return with_columns<64, kOutputs>(column_warps, use);
  }
}
template <typename Use>
void with_shape(const SkinnyGemmArguments& a, int column_warps, const Use& use) {
  switch (a.outputs) {
    case SkinnyGemmOutputs::kLow:
      return with_rank<SkinnyGemmOutputs::kLow>(a.rank, column_warps, use);
    case SkinnyGemmOutputs::kWeight:
      return with_rank<SkinnyGemmOutputs::kWeight>(a.rank, column_warps, use);
    case SkinnyGemmOutputs::kBoth:
      return with_rank<SkinnyGemmOutputs::kBoth>(a.rank, column_warps, use);
  }
}

bool has_low(const SkinnyGemmArguments& a) {
  return a.outputs != SkinnyGemmOutputs::kWeight;
}
bool has_weight(const SkinnyGemmArguments& a) {
  return a.outputs != SkinnyGemmOutputs::kLow;
}

int divide_up(int n, int by) {
  return (n + by - 1) / by;
}

void set_strips(SkinnyGemmArguments& a, int num_processors, int column_warps) {
  int stage_rows = 0;
  with_shape(a, column_warps, [&](auto shape) {
    a.strip_columns = decltype(shape)::kStripColumns;
    stage_rows = decltype(shape)::kStageRows;
  });
  a.column_warps = column_warps;
  a.num_strips = 0;
  for (int m = 0; m < a.num_modules; ++m) {
    a.modules[m].first_strip = a.num_strips;
    a.modules[m].num_strips = divide_up(a.modules[m].num_columns, a.strip_columns);
    a.num_strips += a.modules[m].num_strips;
  }
  const int stages = divide_up(a.num_rows, stage_rows);
  const int splits = std::clamp(num_processors / a.num_strips, 1, stages);
  a.split_rows = divide_up(stages, splits) * stage_rows;
  a.num_splits = divide_up(a.num_rows, a.split_rows);
}

// Bytes that a choice of strips moves. Those of the wide matrix count more when processors idle: a
// block alone reads a little more than its share of the bandwidth. Partial sums stay in L2.
double cost_of(const SkinnyGemmArguments& a, int num_processors) {
  constexpr double kOfAlone = 1.15;
  constexpr double kOfPartials = 0.6;
  constexpr double kWrittenAndRead = 8;
  const int blocks = a.num_strips * a.num_splits;
  const double busy = static_cast<double>(blocks) /
                      (static_cast<double>(divide_up(blocks, num_processors)) * num_processors);
  return 2.0 * a.num_rows * a.width / std::min(1.0, kOfAlone * busy) +
         kOfPartials * kWrittenAndRead *
             static_cast<double>(low_partials_numel(a) + weight_partials_numel(a));
}

// Four elements of low, or of a factor's gradient, for each thread.
template <typename T>
__device__ void write_four(const float4& sum, bool accumulate, T* to) {
  float values[4] = {sum.x, sum.y, sum.z, sum.w};
  if (accumulate) {
    float before[4];
    device::load(to, before);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] += before[i];
  }
  device::store(values, to);
}

__device__ float4 sum_partials(const float* from, int count, std::int64_t pitch) {
  float4 sum{};
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    const float4 next = *reinterpret_cast<const float4*>(from + i * pitch);
    sum.x += next.x;
    sum.y += next.y;
    sum.z += next.z;
    sum.w += next.w;
  }
  return sum;
}

__device__ void write_gradient(const GradientTarget& target, std::int64_t at, const float4& sum) {
  if (target.dtype == DataType::kBFloat16) {
    write_four(sum, target.accumulate, static_cast<__nv_bfloat16*>(target.grad) + at);
  } else {
    write_four(sum, target.accumulate, static_cast<float*>(target.grad) + at);
  }
}

__device__ void sum_low(const SkinnyGemmArguments& a, std::int64_t i) {
  const int fours = a.low_width / 4;
  const std::int64_t row = i / fours;
  const int column = static_cast<int>(i % fours) * 4;
  int m = 0;
  while (m + 1 < a.num_modules && column >= a.modules[m + 1].low_begin) ++m;
  const SkinnyGemmModule& module = a.modules[m];
  const std::int64_t pitch = std::int64_t{a.num_rows} * a.rank;
  float4 sum = sum_partials(
      a.low_partials + module.first_strip * pitch + row * a.rank + column - module.low_begin,
      module.num_strips, pitch);
  sum.x *= module.scale;
  sum.y *= module.scale;
  sum.z *= module.scale;
  sum.w *= module.scale;
  write_four(sum, /*accumulate=*/false,
             static_cast<__nv_bfloat16*>(a.low) + row * a.low_width + column);
}

__device__ void sum_weight(const SkinnyGemmArguments& a, std::int64_t i) {
  for (int m = 0; m < a.num_modules; ++m) {
    const SkinnyGemmModule& module = a.modules[m];
    const int fours = module.rank / 4;
    const std::int64_t num = std::int64_t{module.num_columns} * fours;
    if (i >= num) {
      i -= num;
      continue;
    }
    if (module.target.grad == nullptr) return;
    // Strips of a module follow each other, so its rows do too.
    const std::int64_t row = std::int64_t{module.first_strip} * a.strip_columns + i / fours;
    const int column = static_cast<int>(i % fours) * 4;
    const std::int64_t pitch = std::int64_t{a.num_strips} * a.strip_columns * a.rank;
    write_gradient(module.target, i * 4,
                   sum_partials(a.weight_partials + row * a.rank + column, a.num_splits, pitch));
    return;
  }
}

// The partial sums have the rank as the fast dimension, dA as the slow one. Neighbouring threads
// read neighbouring ranks.
__device__ void sum_weight_transposed(const SkinnyGemmArguments& a, std::int64_t i) {
  const SkinnyGemmModule& module = a.modules[0];
  const int column = static_cast<int>(i / module.rank) * 4;
  const int rank = static_cast<int>(i % module.rank);
  if (column >= module.num_columns) return;
  const float* from = a.weight_partials + std::int64_t{column} * a.rank + rank;
  const std::int64_t pitch = std::int64_t{a.num_strips} * a.strip_columns * a.rank;
  float sums[4] = {};
#pragma unroll 4
  for (int split = 0; split < a.num_splits; ++split) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[j] += from[split * pitch + j * a.rank];
  }
  write_gradient(module.target, std::int64_t{rank} * module.num_columns + column,
                 make_float4(sums[0], sums[1], sums[2], sums[3]));
}

__global__ void __launch_bounds__(kSumThreads) sum_kernel(const SkinnyGemmArguments a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  const bool sums_low = a.outputs != SkinnyGemmOutputs::kWeight;
  const std::int64_t num_low = sums_low ? std::int64_t{a.num_rows} * (a.low_width / 4) : 0;
  if (i < num_low) {
    sum_low(a, i);
  } else if (a.outputs == SkinnyGemmOutputs::kBoth) {
    sum_weight(a, i - num_low);
  } else if (a.outputs == SkinnyGemmOutputs::kWeight) {
    sum_weight_transposed(a, i);
  }
}

template <typename Shape>
void launch(const SkinnyGemmArguments& a, cudaStream_t stream) {
  using Storage = typename device::SkinnyGemmBlock<Shape>::Storage;
  constexpr int kBytes = sizeof(Storage) + alignof(Storage);
  const BoxExtent box{Shape::kStageRows, Shape::kBox};
  device::SkinnyGemmKernelArguments with_maps{a, {}, {}};
  with_maps.wide_map = make_bf16_tensor_map(a.wide, {a.num_rows, a.width, a.wide_stride}, box);
  if (has_weight(a)) {
    with_maps.s_map = make_bf16_tensor_map(a.s, {a.num_rows, a.low_width, a.s_stride}, box);
  }
  const auto kernel = device::skinny_gemm_kernel<Shape>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const dim3 grid(static_cast<unsigned>(a.num_strips), static_cast<unsigned>(a.num_splits));
  kernel<<<grid, Shape::kThreads, kBytes, stream>>>(with_maps);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

// Threads of sum_kernel.
std::int64_t num_sums(const SkinnyGemmArguments& a) {
  std::int64_t num = has_low(a) ? std::int64_t{a.num_rows} * (a.low_width / 4) : 0;
  if (!has_weight(a)) return num;
  for (int m = 0; m < a.num_modules; ++m) {
    num += std::int64_t{a.modules[m].num_columns} * a.modules[m].rank / 4;
  }
  return num;
}

}  // namespace

std::int64_t low_partials_numel(const SkinnyGemmArguments& planned) {
  return has_low(planned) ? std::int64_t{planned.num_strips} * planned.num_rows * planned.rank : 0;
}

std::int64_t weight_partials_numel(const SkinnyGemmArguments& planned) {
  return has_weight(planned) ? std::int64_t{planned.num_splits} * planned.num_strips *
                                   planned.strip_columns * planned.rank
                             : 0;
}

void plan_skinny_gemm(SkinnyGemmArguments& arguments, int num_processors, int column_warps) {
  constexpr int kStep = 16;
  int rank = 0;
  for (int m = 0; m < arguments.num_modules; ++m) {
    rank = std::max(rank, arguments.modules[m].rank);
  }
  arguments.rank = divide_up(rank, kStep) * kStep;
  if (column_warps != 0) return set_strips(arguments, num_processors, column_warps);
  double least = std::numeric_limits<double>::infinity();
  int best = 0;
  for (const int warps : {8, 4, 2}) {
    set_strips(arguments, num_processors, warps);
    const double cost = cost_of(arguments, num_processors);
    if (cost < least) {
      least = cost;
      best = warps;
    }
  }
  set_strips(arguments, num_processors, best);
}

void launch_skinny_gemm(const SkinnyGemmArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  with_shape(arguments, arguments.column_warps,
             [&](auto shape) { launch<decltype(shape)>(arguments, on); });
  const auto blocks = static_cast<unsigned>((num_sums(arguments) + kSumThreads - 1) / kSumThreads);
  sum_kernel<<<blocks, kSumThreads, 0, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
