#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear/lora_gradients_kernel.cuh"
#include "models/ops/linear/lora_gradients_launch.h"

namespace packtrain {
namespace {

constexpr int kSumThreads = 256;

// Calls `use` with the shape of the kernel for a rank.
template <typename Use>
void with_shape(int rank, const Use& use) {
  switch (rank) {
    case 16:
      return use(device::LoraGradientsShape<16>{});
    case 32:
      return use(device::LoraGradientsShape<32>{});
    case 48:
      return use(device::LoraGradientsShape<48>{});
    default:
      return use(device::LoraGradientsShape<64>{});
  }
}

int divide_up(int n, int by) {
  return (n + by - 1) / by;
}

// Four elements of grad_low_rank, or of dB, for each thread.
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

__device__ bool has_row(const LoraGradientsArguments& a, const LoraGradientsModule& module,
                        std::int64_t row) {
  return a.row_begins == nullptr ||
         (row >= a.row_begins[module.adapter] && row < a.row_begins[module.adapter + 1]);
}

__device__ void sum_low(const LoraGradientsArguments& a, std::int64_t i) {
  const int fours = a.low_width / 4;
  const std::int64_t row = i / fours;
  const int column = static_cast<int>(i % fours) * 4;
  int m = 0;
  while (m + 1 < a.num_modules && column >= a.modules[m + 1].low_begin) ++m;
  const LoraGradientsModule& module = a.modules[m];
  const std::int64_t pitch = std::int64_t{a.num_rows} * a.rank;
  float4 sum{};
  if (has_row(a, module, row)) {
    sum = sum_partials(
        a.low_partials + module.first_low_strip * pitch + row * a.rank + column - module.low_begin,
        module.num_strips, pitch);
  }
  sum.x *= module.scale;
  sum.y *= module.scale;
  sum.z *= module.scale;
  sum.w *= module.scale;
  write_four(sum, /*accumulate=*/false,
             static_cast<__nv_bfloat16*>(a.grad_low_rank) + row * a.low_width + column);
}

__device__ void sum_b(const LoraGradientsArguments& a, std::int64_t i) {
  for (int m = 0; m < a.num_modules; ++m) {
    const LoraGradientsModule& module = a.modules[m];
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
                   sum_partials(a.b_partials + row * a.rank + column, a.num_splits, pitch));
    return;
  }
}

__global__ void __launch_bounds__(kSumThreads) sum_kernel(const LoraGradientsArguments a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  const std::int64_t num_low = std::int64_t{a.num_rows} * (a.low_width / 4);
  i < num_low ? sum_low(a, i) : sum_b(a, i - num_low);
}

template <typename Shape>
void launch(const LoraGradientsArguments& a, cudaStream_t stream) {
  using Storage = typename device::LoraGradientsBlock<Shape>::Storage;
  constexpr int kBytes = sizeof(Storage) + alignof(Storage);
  const BoxExtent box{Shape::kStageRows, Shape::kBox};
  device::LoraGradientsKernelArguments with_maps{a, {}, {}};
  with_maps.grad_output_map =
      make_bf16_tensor_map(a.grad_output, {a.num_rows, a.width, a.grad_output_stride}, box);
  with_maps.s_map = make_bf16_tensor_map(a.s, {a.num_rows, a.low_width, a.s_stride}, box);
  const auto kernel = device::lora_gradients_kernel<Shape>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const dim3 grid(static_cast<unsigned>(a.num_strips), static_cast<unsigned>(a.num_splits));
  kernel<<<grid, Shape::kThreads, kBytes, stream>>>(with_maps);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

// Threads of sum_kernel.
std::int64_t num_sums(const LoraGradientsArguments& a) {
  std::int64_t num = std::int64_t{a.num_rows} * (a.low_width / 4);
  for (int m = 0; m < a.num_modules; ++m) {
    num += std::int64_t{a.modules[m].num_columns} * a.modules[m].rank / 4;
  }
  return num;
}

void place_strips(LoraGradientsArguments& a) {
  a.num_strips = 0;
  a.num_low_strips = 0;
  int first = 0;  // strip of the adapter
  for (int m = 0; m < a.num_modules; ++m) {
    LoraGradientsModule& module = a.modules[m];
    if (m > 0 && module.adapter != a.modules[m - 1].adapter) first = a.num_strips;
    module.first_strip = a.num_strips;
    module.first_low_strip = a.num_strips - first;
    module.num_strips = divide_up(module.num_columns, a.strip_columns);
    a.num_strips += module.num_strips;
    a.num_low_strips = std::max(a.num_low_strips, a.num_strips - first);
  }
}

}  // namespace

std::int64_t low_partials_numel(const LoraGradientsArguments& planned) {
  return std::int64_t{planned.num_low_strips} * planned.num_rows * planned.rank;
}

std::int64_t b_partials_numel(const LoraGradientsArguments& planned) {
  return std::int64_t{planned.num_splits} * planned.num_strips * planned.strip_columns *
         planned.rank;
}

void plan_lora_gradients(LoraGradientsArguments& a, int num_processors) {
  constexpr int kStep = 16;
  int rank = 0;
  for (int m = 0; m < a.num_modules; ++m) rank = std::max(rank, a.modules[m].rank);
  a.rank = divide_up(rank, kStep) * kStep;
  int stage_rows = 0;
  with_shape(a.rank, [&](auto shape) {
    a.strip_columns = decltype(shape)::kStripColumns;
    stage_rows = decltype(shape)::kStageRows;
  });
  place_strips(a);
  const int stages = divide_up(a.num_rows, stage_rows);
  if (a.row_begins != nullptr) {
    // Numbers of rows differ and are not known here. Blocks of several waves even them out.
    constexpr int kWaves = 3;
    a.num_splits = std::clamp(divide_up(kWaves * num_processors, a.num_strips), 1, stages);
    return;
  }
  const int splits = std::clamp(num_processors / a.num_strips, 1, stages);
  a.num_splits = divide_up(stages, divide_up(stages, splits));
}

void launch_lora_gradients(const LoraGradientsArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  with_shape(arguments.rank, [&](auto shape) { launch<decltype(shape)>(arguments, on); });
  const auto blocks = static_cast<unsigned>((num_sums(arguments) + kSumThreads - 1) / kSumThreads);
  sum_kernel<<<blocks, kSumThreads, 0, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
