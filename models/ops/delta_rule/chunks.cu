// Computes what a chunk has without its first state (delta_rule.h). T is the inverse of 1 + L:
//    W = T (beta exp(a) k)
//    U = T (beta v)
//    scores_ij = scale exp(a_i - a_j) q_i k_j for j <= i
// One block of threads has a chunk and one head. Three of them share a multiprocessor, because the
// inverse is a chain of small steps. So tiles that are not needed together share their memory.
#include "framework/device/cuda/check.h"
#include "models/ops/delta_rule/chunk_inverse.cuh"

namespace packtrain {
namespace {

using device::kDeltaRows;
using ChunkSquare = device::MatrixTile<kDeltaRows>;

constexpr int kChunkThreads = 256;
constexpr int kValueColumns = 128;  // of v that are in shared memory together

// Places in shared memory, in bytes.
template <int K>
struct ChunkShared {
  using Keys = device::MatrixTile<K>;
  using Values = device::MatrixTile<kValueColumns>;
  static constexpr int kKeyBytes = kDeltaRows * Keys::kRowBytes;
  static constexpr int kTileBytes = kDeltaRows * ChunkSquare::kRowBytes;
  static constexpr int kKey = 0;
  static constexpr int kQuery = kKey + kKeyBytes;
  static constexpr int kValue = kQuery;  // after the products of queries
  static constexpr int kLower = kValue + kDeltaRows * Values::kRowBytes;
  static constexpr int kOfKeys = kLower;                  // T beta exp(a), after the inverse
  static constexpr int kOfValues = kOfKeys + kTileBytes;  // T beta
  static constexpr int kInverse = kLower + device::kInverseBytes;
  static constexpr int kSum = kInverse + device::kInverseBytes;
  static constexpr int kBeta = kSum + kDeltaRows * 4;
  static constexpr int kBytes = kBeta + kDeltaRows * 4;
  static_assert(2 * kTileBytes <= device::kInverseBytes && K <= kValueColumns);
  static_assert(kBytes <= kDeltaRuleSharedBytes);
};

template <int K>
class ChunkProducts {
 public:
  using Place = ChunkShared<K>;

  __device__ ChunkProducts(const DeltaRuleArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        chunk_(static_cast<int>(blockIdx.x) / a.num_heads) {}

  __device__ void run() {
    const int head = static_cast<int>(blockIdx.x) % a_.num_heads;
    const device::ChunkHead of{a_.chunks[chunk_], head, a_};
    device::copy_tile<Keys, kDeltaRows, kChunkThreads>(of.k(), a_.k_stride, of.rows.num_rows,
                                                       a_.key_dim, shared_ + Place::kKey);
    device::copy_tile<Keys, kDeltaRows, kChunkThreads>(of.q(), a_.q_stride, of.rows.num_rows,
                                                       a_.key_dim, shared_ + Place::kQuery);
    device::cp_async_commit_group();
    if (threadIdx.x < 32) sum_decays(of);
    device::cp_async_wait_group<0>();
    __syncthreads();
    write_squares(of);
    __syncthreads();
    load_values(of, 0);
    device::invert_unit_lower(floats(Place::kLower), floats(Place::kInverse));
    write_factors(of);
    __syncthreads();
    write_w(of);
    for (int column = 0; column < a_.value_dim; column += kValueColumns) {
      if (column > 0) {
        __syncthreads();
        load_values(of, column);
      }
      device::cp_async_wait_group<0>();
      __syncthreads();
      write_u(of, column);
    }
  }

 private:
  using Keys = typename Place::Keys;
  using Values = typename Place::Values;

  __device__ float* floats(int place) const { return reinterpret_cast<float*>(shared_ + place); }

  // Eight floats by vectors of 16 bytes, which have few bank conflicts.
  __device__ void load_floats(int place, int at, float (&to)[8]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[4];
      device::load(floats(place) + at + 4 * half, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) to[4 * half + i] = values[i];
    }
  }

  __device__ void load_values(const device::ChunkHead& of, int column) {
    device::copy_tile<Values, kDeltaRows, kChunkThreads>(of.v() + column, a_.v_stride,
                                                         of.rows.num_rows, a_.value_dim - column,
                                                         shared_ + Place::kValue);
    device::cp_async_commit_group();
  }

  // Rows after the last one have g = beta = 0. One warp, two rows a lane.
  __device__ void sum_decays(const device::ChunkHead& of) {
    const int lane = device::delta_lane();
    float g[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 2 * lane + i;
      const bool there = row < of.rows.num_rows;
      g[i] = there ? a_.g[of.scalar(row)] : 0;
      floats(Place::kBeta)[row] = there ? a_.beta[of.scalar(row)] : 0;
    }
    float sum = g[0] + g[1];
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const float before = __shfl_up_sync(~0U, sum, offset);
      if (lane >= offset) sum += before;
    }
    const float sums[2] = {sum - g[1], sum};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 2 * lane + i;
      floats(Place::kSum)[row] = sums[i];
      if (row < of.rows.num_rows) a_.sums[of.scalar(row)] = sums[i];
    }
  }

  // L to shared memory, scores to global memory.
  __device__ void write_squares(const device::ChunkHead& of) {
    const int n = 32 * device::warp_part();
    const float* sums = floats(Place::kSum);
    float keys[4][4] = {};
    device::multiply_tiles<Keys, false, Keys, false>(address_ + Place::kKey, device::warp_row(),
                                                     address_ + Place::kKey, n, 0, K / 16, keys);
    float scores[4][4] = {};
    device::multiply_tiles<Keys, false, Keys, false>(address_ + Place::kQuery, device::warp_row(),
                                                     address_ + Place::kKey, n, 0, K / 16, scores);
    device::for_lane_rows(device::warp_row(), [&](int row, int half) {
      const float beta = floats(Place::kBeta)[row];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = n + 8 * t + device::delta_lane() % 4 * 2 + e;
          const float ratio = column <= row ? __expf(sums[row] - sums[column]) : 0;
          scores[t][2 * half + e] *= a_.scale * ratio;
          if (column < row) {
            floats(Place::kLower)[row * device::kInverseStride + column] =
                beta * ratio * keys[t][2 * half + e];
          }
        }
      }
    });
    device::write_sums(scores, device::warp_row(), n,
                       device::elements(a_.scores) + of.index(chunk_), kDeltaRows, kDeltaRows,
                       kDeltaRows);
  }

  // T beta exp(a) and T beta as bfloat16. A thread has 8 columns of two rows.
  __device__ void write_factors(const device::ChunkHead& of) {
    for (int at = static_cast<int>(threadIdx.x); at < kDeltaRows * 8; at += kChunkThreads) {
      const int row = at / 8;
      const int first = at % 8 * 8;
      float inverse[8];
      float betas[8];
      float sums[8];
      load_floats(Place::kInverse, row * device::kInverseStride + first, inverse);
      load_floats(Place::kBeta, first, betas);
      load_floats(Place::kSum, first, sums);
      float of_values[8];
      float of_keys[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (first + i > row) inverse[i] = 0;
        of_values[i] = inverse[i] * betas[i];
        of_keys[i] = of_values[i] * __expf(sums[i]);
      }
      const std::uint32_t place = ChunkSquare::place(row, at % 8);
      device::store(of_values,
                    reinterpret_cast<__nv_bfloat16*>(shared_ + Place::kOfValues + place));
      device::store(of_keys, reinterpret_cast<__nv_bfloat16*>(shared_ + Place::kOfKeys + place));
      if (a_.inverse != nullptr) {
        device::store(inverse,
                      device::elements(a_.inverse) + of.index(chunk_) + row * kDeltaRows + first);
      }
    }
  }

  __device__ void write_w(const device::ChunkHead& of) {
    constexpr int kColumns = K / 2;  // of a warp
    const int n = kColumns * device::warp_part();
    float sums[kColumns / 8][4] = {};
    device::multiply_tiles<ChunkSquare, false, Keys, true>(
        address_ + Place::kOfKeys, device::warp_row(), address_ + Place::kKey, n, 0,
        device::lower_steps(), sums);
    device::write_sums(sums, device::warp_row(), n, device::elements(a_.w) + of.w_offset(),
                       of.w_stride(), of.rows.num_rows, a_.key_dim);
  }

  __device__ void write_u(const device::ChunkHead& of, int column) {
    constexpr int kColumns = kValueColumns / 2;  // of a warp
    const int n = kColumns * device::warp_part();
    float sums[kColumns / 8][4] = {};
    device::multiply_tiles<ChunkSquare, false, Values, true>(
        address_ + Place::kOfValues, device::warp_row(), address_ + Place::kValue, n, 0,
        device::lower_steps(), sums);
    device::write_sums(sums, device::warp_row(), n,
                       device::elements(a_.d) + of.value_offset() + column, of.value_stride(),
                       of.rows.num_rows, a_.value_dim - column);
  }

  const DeltaRuleArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  int chunk_;
};

template <int K>
__global__ void __launch_bounds__(kChunkThreads, 3)
    delta_rule_chunks_kernel(const __grid_constant__ DeltaRuleArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  ChunkProducts<K>(a, shared).run();
}

template <int K>
void launch_chunks(const DeltaRuleArguments& a, cudaStream_t stream) {
  const auto kernel = delta_rule_chunks_kernel<K>;
  constexpr int kBytes = ChunkShared<K>::kBytes;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  kernel<<<static_cast<unsigned>(a.num_chunks * a.num_heads), kChunkThreads, kBytes, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_delta_rule_chunks(const DeltaRuleArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.key_dim <= 64 ? launch_chunks<64>(arguments, on) : launch_chunks<128>(arguments, on);
}

}  // namespace packtrain
