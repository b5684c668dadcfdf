// Computes the gradients of the inputs of a chunk. S is the state before the chunk, and dS the
// gradient of the state after it. T is the inverse of 1 + L. r_ij is exp(a_i - a_j) for j <= i.
//    e = T^T dd,  dv = beta e                     e: gradient of the right side of d's equation
//    A = scale r (do d^T),  B = -r (e d^T) for j < i
//    dq = A k + scale exp(a) do S^T
//    P  = B k - exp(a) e S^T,  E = exp(a_last - a) d dS^T
//    dk = beta P + E + A^T q + B^T (beta k)
//    dbeta = e v + k P          (sums over the columns of a row)
//    da = q dq - k dk + 2 beta k P,  and for the last row + sum of k E + exp(a_last) (S dS)
//    dg_i = sum of da_j for j >= i
// The formula of da uses that the derivative of r_ij by a is the product's share of q dq or k dk.
//
// One block of threads has a chunk and one head of queries and keys. It adds the heads of values
// that share them, in their order.
#include "framework/device/cuda/check.h"
#include "models/ops/delta_rule/chunk_tiles.cuh"

namespace packtrain {
namespace {

using device::kDeltaRows;
using device::kDeltaThreads;

constexpr int kTileColumns = 64;  // of values, that are in shared memory together

// Places in shared memory, in bytes. A stage has the tiles of some columns of values.
template <int K, int kStages>
struct GradientShared {
  using Keys = device::MatrixTile<K>;
  using Square = device::MatrixTile<64>;
  static constexpr int kKeyBytes = kDeltaRows * Keys::kRowBytes;
  static constexpr int kSquareBytes = 64 * Square::kRowBytes;
  static constexpr int kStateBytes = K * Square::kRowBytes;
  static constexpr int kTotalBytes = kDeltaRows * K * 4;
  static constexpr int kRight = 0;                // dd, then e, later B
  static constexpr int kD = kSquareBytes;         // later beta B
  static constexpr int kGrad = 2 * kSquareBytes;  // do, later A
  static constexpr int kState = 3 * kSquareBytes;
  static constexpr int kGradState = kState + kStateBytes;
  static constexpr int kStageBytes = kGradState + kStateBytes;
  static constexpr int kKey = kStages * kStageBytes;
  static constexpr int kQuery = kKey + kKeyBytes;
  static constexpr int kInverse = kQuery + kKeyBytes;
  static constexpr int kTotals = kInverse + kSquareBytes;  // float32 of dq and dk of all heads
  static constexpr int kSum = kTotals + 2 * kTotalBytes;   // of even and odd heads
  static constexpr int kBeta = kSum + 2 * kDeltaRows * 4;
  static constexpr int kRowSums = kBeta + 2 * kDeltaRows * 4;  // [2 halves, 3, rows]
  static constexpr int kWarpSums = kRowSums + 2 * 3 * kDeltaRows * 4;
  static constexpr int kBytes = kWarpSums + device::kDeltaWarps * 4;
  static_assert(kBytes <= (kStages == 2 ? kDeltaRuleTwoStageBytes : kDeltaRuleSharedBytes));
};

template <int K, int kStages>
class ChunkGradients {
 public:
  using Place = GradientShared<K, kStages>;

  __device__ ChunkGradients(const DeltaRuleArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        group_(a.num_heads / a.num_key_heads),
        chunk_(static_cast<int>(blockIdx.x) / a.num_key_heads),
        key_head_(static_cast<int>(blockIdx.x) % a.num_key_heads),
        rows_(a.chunks[chunk_]) {}

  __device__ void run() {
    const device::ChunkHead first = head(0);
    device::copy_tile<Keys, kDeltaRows>(first.k(), a_.k_stride, rows_.num_rows, a_.key_dim,
                                        shared_ + Place::kKey);
    device::copy_tile<Keys, kDeltaRows>(first.q(), a_.q_stride, rows_.num_rows, a_.key_dim,
                                        shared_ + Place::kQuery);
    load_inverse(first);
    if (kStages == 2) load_tiles(first, 0, 0);
    device::cp_async_commit_group();
    load_scalars(0);
    int stage = 0;
    for (int member = 0; member < group_; ++member) {
      Sums sums;
      for (int column = 0; column < a_.value_dim; column += kTileColumns) {
        run_tile(member, column, stage, sums);
        if (kStages == 2) stage ^= 1;
      }
      finish_head(member, kStages == 2 ? stage ^ 1 : 0, sums);
    }
  }

 private:
  using Keys = typename Place::Keys;
  using Square = typename Place::Square;
  static constexpr int kColumns = K / 2;  // of keys, of a warp
  static constexpr int kTiles = kColumns / 8;

  // Sums of products over the values' columns. All of a warp's 16 rows.
  struct Sums {
    float scores[4][4] = {};        // do d^T
    float lower[4][4] = {};         // e d^T
    float query[kTiles][4] = {};    // do S^T
    float product[kTiles][4] = {};  // e S^T
    float ended[kTiles][4] = {};    // d dS^T
    float right_v[2] = {};          // e v, this lane's share
    float states = 0;               // S dS, this thread's share
  };

  __device__ float* floats(int place) const { return reinterpret_cast<float*>(shared_ + place); }
  __device__ static int m() { return device::warp_row(); }
  __device__ device::ChunkHead head(int member) const {
    return {rows_, key_head_ * group_ + member, a_};
  }
  __device__ static int stage_place(int stage) { return stage * Place::kStageBytes; }
  __device__ float* sums_of(int member) const {
    return floats(Place::kSum) + member % 2 * kDeltaRows;
  }
  __device__ float* betas_of(int member) const {
    return floats(Place::kBeta) + member % 2 * kDeltaRows;
  }

  // Adds the products of some columns of values.
  __device__ void run_tile(int member, int column, int stage, Sums& sums) {
    const bool is_last = column + kTileColumns >= a_.value_dim;
    if (column == 0) store_scalars(member);
    if constexpr (kStages == 1) {
      __syncthreads();  // the tiles before are done
      load_tiles(head(member), column, 0);
      device::cp_async_commit_group();
    }
    device::cp_async_wait_group<0>();
    __syncthreads();
    if (kStages == 2 && !(is_last && member + 1 == group_)) {
      load_tiles(head(is_last ? member + 1 : member), is_last ? 0 : column + kTileColumns,
                 stage ^ 1);
      device::cp_async_commit_group();
    }
    float right[4][4] = {};
    multiply_right(member, column, stage, right, sums);
    __syncthreads();  // products have read dd, whose place e takes
    store_right(stage, right);
    __syncthreads();
    if (is_last && member + 1 < group_) {
      load_inverse(head(member + 1));
      device::cp_async_commit_group();
      load_scalars(member + 1);
    }
    add_products(stage_place(stage), sums);
  }

  __device__ void finish_head(int member, int stage, Sums& sums) {
    __syncthreads();
    write_squares(member, stage_place(stage), sums);
    __syncthreads();
    float row_sums[3][2];
    finish_keys(member, stage_place(stage), sums, row_sums);
    finish_scalars(member, sums, row_sums);
  }

  __device__ void load_inverse(const device::ChunkHead& of) {
    device::copy_tile<Square, kDeltaRows>(device::elements(a_.inverse) + of.index(chunk_),
                                          kDeltaRows, kDeltaRows, kDeltaRows,
                                          shared_ + Place::kInverse);
  }

  // a and beta of a row, which go to shared memory when their head begins.
  __device__ void load_scalars(int member) {
    if (threadIdx.x >= kDeltaRows) return;
    const int row = static_cast<int>(threadIdx.x);
    sum_ = head(member).sum(row);
    beta_ = row < rows_.num_rows ? a_.beta[head(member).scalar(row)] : 0;
  }
  __device__ void store_scalars(int member) const {
    if (threadIdx.x >= kDeltaRows) return;
    sums_of(member)[threadIdx.x] = sum_;
    betas_of(member)[threadIdx.x] = beta_;
  }

  __device__ void load_tiles(const device::ChunkHead& of, int column, int stage) {
    const int width = a_.value_dim - column;
    unsigned char* to = shared_ + stage_place(stage);
    const auto copy = [&](const void* from, int place) {
      device::copy_tile<Square, kDeltaRows>(device::elements(from) + of.value_offset() + column,
                                            of.value_stride(), rows_.num_rows, width, to + place);
    };
    copy(a_.grad_d, Place::kRight);
    copy(a_.d, Place::kD);
    copy(a_.grad_output, Place::kGrad);
    if (rows_.slot_before >= 0) {
      device::copy_tile<Square, K>(
          device::elements(a_.states) + of.state(rows_.slot_before) + column, a_.value_dim,
          a_.key_dim, width, to + Place::kState);
    }
    if (rows_.slot_after >= 0) {
      device::copy_tile<Square, K>(
          device::elements(a_.grad_states) + of.state(rows_.slot_after) + column, a_.value_dim,
          a_.key_dim, width, to + Place::kGradState);
    }
  }

  // This lane's pairs of v, from global memory: they are read once.
  __device__ void load_v(const device::ChunkHead& of, int column,
                         std::uint32_t (&words)[4][2]) const {
    const int first = column + 32 * device::warp_half() + device::delta_lane() % 4 * 2;
    device::for_lane_rows(m(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const int at = first + 8 * t;
        words[t][half] =
            row < rows_.num_rows && at < a_.value_dim
                ? *reinterpret_cast<const std::uint32_t*>(of.v() + row * a_.v_stride + at)
                : 0;
      }
    });
  }

  // e of a tile, and dv.
  __device__ void multiply_right(int member, int column, int stage, float (&right)[4][4],
                                 Sums& sums) {
    const device::ChunkHead of = head(member);
    const int n = 32 * device::warp_half();
    std::uint32_t v[4][2];
    load_v(of, column, v);
    device::multiply_tiles<Square, true, Square, true>(
        address_ + Place::kInverse, m(), address_ + stage_place(stage) + Place::kRight, n, 0, 4,
        right);
    float grads[4][4];
    device::for_lane_rows(m(), [&](int row, int half) {
      const float beta = betas_of(member)[row];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const float* e = &right[t][2 * half];
        sums.right_v[half] =
            fmaf(e[0], device::low_bfloat16(v[t][half]),
                 fmaf(e[1], device::high_bfloat16(v[t][half]), sums.right_v[half]));
        grads[t][2 * half] = beta * e[0];
        grads[t][2 * half + 1] = beta * e[1];
      }
    });
    device::write_sums(grads, m(), n, device::elements(a_.grad_v) + of.value_offset() + column,
                       of.value_stride(), rows_.num_rows, a_.value_dim - column);
  }

  __device__ void store_right(int stage, const float (&right)[4][4]) const {
    device::for_lane_rows(m(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        device::store_pair<Square>(shared_ + stage_place(stage) + Place::kRight, row,
                                   32 * device::warp_half(), t, right[t][2 * half],
                                   right[t][2 * half + 1]);
      }
    });
  }

  __device__ void add_products(int at, Sums& sums) {
    const int n = 32 * device::warp_half();
    const int key = kColumns * device::warp_half();
    device::multiply_tiles<Square, false, Square, false>(
        address_ + at + Place::kGrad, m(), address_ + at + Place::kD, n, 0, 4, sums.scores);
    device::multiply_tiles<Square, false, Square, false>(
        address_ + at + Place::kRight, m(), address_ + at + Place::kD, n, 0, 4, sums.lower);
    if (rows_.slot_before >= 0) {
      device::multiply_tiles<Square, false, Square, false>(
          address_ + at + Place::kGrad, m(), address_ + at + Place::kState, key, 0, 4, sums.query);
      device::multiply_tiles<Square, false, Square, false>(address_ + at + Place::kRight, m(),
                                                           address_ + at + Place::kState, key, 0, 4,
                                                           sums.product);
    }
    if (rows_.slot_after >= 0) {
      device::multiply_tiles<Square, false, Square, false>(
          address_ + at + Place::kD, m(), address_ + at + Place::kGradState, key, 0, 4, sums.ended);
    }
    if (rows_.slot_before >= 0 && rows_.slot_after >= 0) add_states(at, sums);
  }

  // S dS. Columns after the last are zero in both.
  __device__ void add_states(int place, Sums& sums) {
    for (int at = static_cast<int>(threadIdx.x); at < K * Square::kChunks; at += kDeltaThreads) {
      float state[8];
      float grad[8];
      device::load(
          reinterpret_cast<const __nv_bfloat16*>(shared_ + place + Place::kState + 16 * at), state);
      device::load(
          reinterpret_cast<const __nv_bfloat16*>(shared_ + place + Place::kGradState + 16 * at),
          grad);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums.states = fmaf(state[i], grad[i], sums.states);
    }
  }

  // A, B and beta B.
  __device__ void write_squares(int member, int at, const Sums& sums) {
    const int n = 32 * device::warp_half();
    const float* a = sums_of(member);
    device::for_lane_rows(m(), [&](int row, int half) {
      const float beta = betas_of(member)[row];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        float scores[2];
        float lower[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = n + 8 * t + device::delta_lane() % 4 * 2 + e;
          const float ratio = column <= row ? __expf(a[row] - a[column]) : 0;
          scores[e] = a_.scale * ratio * sums.scores[t][2 * half + e];
          lower[e] = column < row ? -ratio * sums.lower[t][2 * half + e] : 0;
        }
        device::store_pair<Square>(shared_ + at + Place::kGrad, row, n, t, scores[0], scores[1]);
        device::store_pair<Square>(shared_ + at + Place::kRight, row, n, t, lower[0], lower[1]);
        device::store_pair<Square>(shared_ + at + Place::kD, row, n, t, beta * lower[0],
                                   beta * lower[1]);
      }
    });
  }

  // dq and dk of this head, added to those of the heads before. row_sums: this lane's shares of
  // da, k P and k E.
  __device__ void finish_keys(int member, int at, Sums& sums, float (&row_sums)[3][2]) {
    const int n = kColumns * device::warp_half();
    scale_rows(member, sums);
    device::multiply_tiles<Square, false, Keys, true>(address_ + at + Place::kGrad, m(),
                                                      address_ + Place::kKey, n, 0, 4, sums.query);
    device::multiply_tiles<Square, false, Keys, true>(
        address_ + at + Place::kRight, m(), address_ + Place::kKey, n, 0, 4, sums.product);
    add_row_sums(member, n, sums, row_sums);
    device::multiply_tiles<Square, true, Keys, true>(address_ + at + Place::kGrad, m(),
                                                     address_ + Place::kQuery, n, 0, 4, sums.ended);
    device::multiply_tiles<Square, true, Keys, true>(address_ + at + Place::kD, m(),
                                                     address_ + Place::kKey, n, 0, 4, sums.ended);
    subtract_key_gradient(sums, n, row_sums);
    add_to_totals(sums.query, member, floats(Place::kTotals), a_.grad_q);
    add_to_totals(sums.ended, member, floats(Place::kTotals + Place::kTotalBytes), a_.grad_k);
  }

  __device__ void scale_rows(int member, Sums& sums) {
    const float* a = sums_of(member);
    device::for_lane_rows(m(), [&](int row, int half) {
      const float decay = __expf(a[row]);
      const float to_end = __expf(a[kDeltaRows - 1] - a[row]);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          sums.query[t][e] *= a_.scale * decay;
          sums.product[t][e] *= -decay;
          sums.ended[t][e] *= to_end;
        }
      }
    });
  }

  // After this `ended` has E + beta P.
  __device__ void add_row_sums(int member, int n, Sums& sums, float (&row_sums)[3][2]) {
    device::for_lane_rows(m(), [&](int row, int half) {
      const float beta = betas_of(member)[row];
      float of_query = 0;
      float of_product = 0;
      float of_end = 0;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float2 q = device::load_pair<Keys>(shared_ + Place::kQuery, row, n, t);
        const float2 k = device::load_pair<Keys>(shared_ + Place::kKey, row, n, t);
        const float* dq = &sums.query[t][2 * half];
        const float* p = &sums.product[t][2 * half];
        float* ended = &sums.ended[t][2 * half];
        of_query = fmaf(q.x, dq[0], fmaf(q.y, dq[1], of_query));
        of_product = fmaf(k.x, p[0], fmaf(k.y, p[1], of_product));
        of_end = fmaf(k.x, ended[0], fmaf(k.y, ended[1], of_end));
        ended[0] = fmaf(beta, p[0], ended[0]);
        ended[1] = fmaf(beta, p[1], ended[1]);
      }
      row_sums[0][half] = of_query + 2 * beta * of_product;
      row_sums[1][half] = of_product;
      row_sums[2][half] = of_end;
    });
  }

  __device__ void subtract_key_gradient(const Sums& sums, int n, float (&row_sums)[3][2]) {
    device::for_lane_rows(m(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float2 k = device::load_pair<Keys>(shared_ + Place::kKey, row, n, t);
        row_sums[0][half] -= k.x * sums.ended[t][2 * half] + k.y * sums.ended[t][2 * half + 1];
      }
    });
  }

  // The last head writes the totals. A thread has the same elements of each head.
  __device__ void add_to_totals(float (&sums)[kTiles][4], int member, float* totals, void* grad) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float* total = totals + (4 * t + e) * kDeltaThreads + threadIdx.x;
        if (member > 0) sums[t][e] += *total;
        if (member + 1 < group_) *total = sums[t][e];
      }
    }
    if (member + 1 < group_) return;
    const std::int64_t stride = std::int64_t{a_.num_key_heads} * a_.key_dim;
    device::write_sums(
        sums, m(), kColumns * device::warp_half(),
        device::elements(grad) + rows_.first_row * stride + std::int64_t{key_head_} * a_.key_dim,
        stride, rows_.num_rows, a_.key_dim);
  }

  __device__ void finish_scalars(int member, const Sums& sums, float (&row_sums)[3][2]) {
    float* shared = floats(Place::kRowSums);
    device::for_lane_rows(m(), [&](int row, int half) {
      // e v has shares by halves of the values, the others by halves of the keys.
      row_sums[1][half] += sums.right_v[half];
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        float sum = row_sums[i][half];
        sum += __shfl_xor_sync(~0U, sum, 1);
        sum += __shfl_xor_sync(~0U, sum, 2);
        if (device::delta_lane() % 4 == 0) {
          shared[(device::warp_half() * 3 + i) * kDeltaRows + row] = sum;
        }
      }
    });
    float states = sums.states;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) states += __shfl_xor_sync(~0U, states, offset);
    if (device::delta_lane() == 0) floats(Place::kWarpSums)[device::delta_warp()] = states;
    __syncthreads();
    if (threadIdx.x < 32) write_scalars(member);
  }

  __device__ float row_sum(int i, int row) const {
    const float* shared = floats(Place::kRowSums);
    return shared[i * kDeltaRows + row] + shared[(3 + i) * kDeltaRows + row];
  }

  // dbeta and dg by one warp, two rows a lane: dg is the sum of da over later rows.
  __device__ void write_scalars(int member) {
    const device::ChunkHead of = head(member);
    const int lane = device::delta_lane();
    const int row = 2 * lane;
    float of_end = row_sum(2, row) + row_sum(2, row + 1);
    for (int offset = 16; offset > 0; offset /= 2) of_end += __shfl_xor_sync(~0U, of_end, offset);
    float states = 0;
    for (int warp = 0; warp < device::kDeltaWarps; ++warp) states += floats(Place::kWarpSums)[warp];
    const float of_last = fmaf(__expf(sums_of(member)[kDeltaRows - 1]), states, of_end);
    float grads[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      grads[i] = row + i < rows_.num_rows ? row_sum(0, row + i) : 0;
      if (row + i == rows_.num_rows - 1) grads[i] += of_last;
    }
    float sum = grads[0] + grads[1];
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const float after = __shfl_down_sync(~0U, sum, offset);
      if (lane + offset < 32) sum += after;
    }
    const float later[2] = {sum, sum - grads[0]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (row + i >= rows_.num_rows) continue;
      const bool is_first = rows_.slot_before < 0 && row + i == 0;  // it decays nothing
      a_.grad_g[of.scalar(row + i)] = is_first ? 0 : later[i];
      a_.grad_beta[of.scalar(row + i)] = row_sum(1, row + i);
    }
  }

  const DeltaRuleArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  int group_;
  int chunk_;
  int key_head_;
  DeltaRuleChunkRows rows_;
  float sum_ = 0;
  float beta_ = 0;
};

template <int K, int kStages>
__global__ void __launch_bounds__(kDeltaThreads, 1)
    delta_rule_gradients_kernel(const __grid_constant__ DeltaRuleArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  ChunkGradients<K, kStages>(a, shared).run();
}

template <int K, int kStages>
void launch_gradients(const DeltaRuleArguments& a, cudaStream_t stream) {
  const auto kernel = delta_rule_gradients_kernel<K, kStages>;
  constexpr int kBytes = GradientShared<K, kStages>::kBytes;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  kernel<<<static_cast<unsigned>(a.num_chunks * a.num_key_heads), kDeltaThreads, kBytes, stream>>>(
      a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

template <int K>
void launch_gradients_of(const DeltaRuleArguments& a, cudaStream_t stream) {
  a.shared_bytes >= kDeltaRuleTwoStageBytes ? launch_gradients<K, 2>(a, stream)
                                            : launch_gradients<K, 1>(a, stream);
}

}  // namespace

void launch_delta_rule_gradients(const DeltaRuleArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.key_dim <= 64 ? launch_gradients_of<64>(arguments, on)
                          : launch_gradients_of<128>(arguments, on);
}

}  // namespace packtrain
