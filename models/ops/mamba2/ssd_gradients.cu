// Backward of the state space model, from the states of ssd.cu. The formulas are those of ssd.h.
#include "framework/device/cuda/check.h"
#include "models/ops/mamba2/ssd_tile.cuh"

namespace packtrain {
namespace {

using device::kSsdPart;
using device::kSsdThreads;
using device::kSsdTile;

// What a chunk adds to the gradient of the state before it: sum over i of exp(a_i) c_i e_i^T.
template <typename T>
__global__ void __launch_bounds__(kSsdThreads)
    ssd_grad_states_kernel(const __grid_constant__ SsdGeneralArguments a) {
  const int slot = a.chunks[blockIdx.x].slot_before;
  if (slot < 0) return;
  __shared__ device::SsdShared shared;
  const int head = static_cast<int>(blockIdx.y);
  const device::SsdHeadChunk<T> chunk(a, shared, static_cast<int>(blockIdx.x), head);
  device::write_ssd_state(
      a, shared, chunk.rows(), [&](int n, int i) { return chunk.decay(i) * chunk.c(i, n); },
      [&](int i, int p) { return chunk.grad(i, p); }, a.grad_states, slot, head);
}

// The recurrence over the chunks of a sequence, the last one first.
__global__ void __launch_bounds__(kSsdThreads)
    ssd_grad_pass_kernel(const __grid_constant__ SsdGeneralArguments a) {
  const std::int64_t size = std::int64_t{a.state_dim} * a.head_dim;
  const std::int64_t at = std::int64_t{blockIdx.z} * kSsdThreads + threadIdx.x;
  if (at >= size) return;
  const DeltaRuleSequence sequence = a.sequences[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y);
  float grad = 0;
  for (int i = sequence.num_chunks; i-- > 1;) {
    const DeltaRuleChunkRows rows = a.chunks[sequence.first_chunk + i];
    const std::int64_t last = std::int64_t{rows.first_row} + rows.num_rows - 1;
    float* const to =
        a.grad_states + (std::int64_t{rows.slot_before} * a.num_heads + head) * size + at;
    grad = fmaf(expf(a.sums[last * a.num_heads + head]), grad, *to);
    *to = grad;
  }
}

// The gradients of x, of steps and of decays, and partial sums of dD, of one chunk and head.
template <typename T>
class SsdRowGradients {
 public:
  __device__ SsdRowGradients(const SsdGeneralArguments& a, device::SsdShared& shared)
      : a_(a),
        shared_(shared),
        head_(static_cast<int>(blockIdx.y)),
        chunk_(a, shared, static_cast<int>(blockIdx.x), head_) {}

  __device__ void run() {
    chunk_.fill_products();
    for (int first = 0; first < a_.head_dim; first += kSsdTile) {
      device::SsdTile tile;
      device::clear(tile);
      add_grad_inputs(tile, first);
      write_grad_x(tile, first);
      device::clear(tile);
      chunk_.add_output(tile, first);
      add_output_sums(tile, first);
    }
    const float states = state_products();
    write_skip(row_sum(skip_sums_));
    const float steps = row_sum(step_sums_);
    const float outputs = row_sum(output_sums_);
    write_scalars(steps, outputs, states);
  }

 private:
  // du = K^T e + exp(a_L - a) b dS'.
  __device__ void add_grad_inputs(device::SsdTile& tile, int first) const {
    device::add_ssd_product<false>(
        tile, kSsdTile, shared_, [&](int j, int i) { return shared_.square[i][j]; },
        [&](int i, int p) { return chunk_.grad(i, first + p); });
    if (chunk_.is_last()) return;
    device::add_ssd_product<true>(
        tile, a_.state_dim, shared_,
        [&](int j, int n) { return chunk_.to_end(j) * chunk_.b(j, n); },
        [&](int n, int p) { return chunk_.grad_next(n, first + p); });
  }

  __device__ void write_grad_x(device::SsdTile& tile, int first) {
#pragma unroll
    for (int r = 0; r < kSsdPart; ++r) {
      const int j = device::ssd_row(r);
#pragma unroll
      for (int s = 0; s < kSsdPart; ++s) {
        const int p = first + device::ssd_column(s);
        const float x = chunk_.x(j, p), grad = chunk_.grad(j, p);
        step_sums_[r] = fmaf(tile[r][s], x, step_sums_[r]);
        skip_sums_[r] = fmaf(grad, x, skip_sums_[r]);
        if (j >= chunk_.rows() || p >= a_.head_dim) continue;
        const float sum = fmaf(chunk_.step(j), tile[r][s], a_.skip[head_] * grad);
        static_cast<T*>(
            a_.grad_x)[chunk_.row(j) * a_.grad_x_stride + std::int64_t{head_} * a_.head_dim + p] =
            device::from_float<T>(sum);
      }
    }
  }

  // Sums of e (y - D x).
  __device__ void add_output_sums(device::SsdTile& tile, int first) {
#pragma unroll
    for (int r = 0; r < kSsdPart; ++r) {
#pragma unroll
      for (int s = 0; s < kSsdPart; ++s) {
        const float grad = chunk_.grad(device::ssd_row(r), first + device::ssd_column(s));
        output_sums_[r] = fmaf(grad, tile[r][s], output_sums_[r]);
      }
    }
  }

  // Sums of the rows' parts, which 16 threads have. Returned to the thread of the row.
  __device__ float row_sum(const float (&parts)[kSsdPart]) const {
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kSsdPart; ++r) {
      shared_.row_sums[device::ssd_row(r)][threadIdx.x % 16] = parts[r];
    }
    __syncthreads();
    float sum = 0;
    if (threadIdx.x < kSsdTile) {
      for (int s = 0; s < kSsdTile / kSsdPart; ++s) sum += shared_.row_sums[threadIdx.x][s];
    }
    return sum;
  }

  // S' dS'.
  __device__ float state_products() const {
    float sum = 0;
    if (!chunk_.is_last()) {
      for (int at = static_cast<int>(threadIdx.x); at < a_.state_dim * a_.head_dim;
           at += kSsdThreads) {
        const int n = at / a_.head_dim, p = at % a_.head_dim;
        sum = fmaf(chunk_.next_state(n, p), chunk_.grad_next(n, p), sum);
      }
    }
    return device::block_sum(sum, shared_.scratch);
  }

  __device__ void write_skip(float row) const {
    const float sum = device::block_sum(row, shared_.scratch);
    if (threadIdx.x == 0) {
      a_.skip_partials[std::int64_t{blockIdx.x} * a_.num_heads + head_] = sum;
    }
  }

  __device__ void write_scalars(float steps, float outputs, float states) const {
    const int i = static_cast<int>(threadIdx.x);
    __syncthreads();
    if (i < kSsdTile) {
      shared_.row_sums[i][0] = outputs - chunk_.step(i) * steps;
      if (i < chunk_.rows()) a_.grad_steps[chunk_.scalar_at(i)] = steps;
    }
    __syncthreads();
    if (i != 0) return;
    float sum = states;
    for (int t = chunk_.rows(); t-- > 0;) {
      sum += shared_.row_sums[t][0];
      const bool decays_nothing = chunk_.is_first() && t == 0;
      a_.grad_g[chunk_.scalar_at(t)] = decays_nothing ? 0 : sum;
    }
  }

  const SsdGeneralArguments& a_;
  device::SsdShared& shared_;
  int head_;
  device::SsdHeadChunk<T> chunk_;
  float step_sums_[kSsdPart] = {};    // du x
  float skip_sums_[kSsdPart] = {};    // e x
  float output_sums_[kSsdPart] = {};  // e (y - D x)
};

template <typename T>
__global__ void __launch_bounds__(kSsdThreads)
    ssd_grad_rows_kernel(const __grid_constant__ SsdGeneralArguments a) {
  __shared__ device::SsdShared shared;
  SsdRowGradients<T>(a, shared).run();
}

// shared.square becomes W.
template <typename T>
__device__ void fill_weights(const device::SsdHeadChunk<T>& chunk, int head_dim,
                             device::SsdShared& shared) {
  device::SsdTile tile;
  device::clear(tile);
  device::add_ssd_product<true>(
      tile, head_dim, shared, [&](int i, int p) { return chunk.grad(i, p); },
      [&](int p, int j) { return chunk.step(j) * chunk.x(j, p); });
  device::for_ssd_tile(tile, [&](int i, int j, float& product) {
    shared.square[i][j] = product * chunk.ratio(i, j);
  });
  __syncthreads();
}

// dc, or db where blockIdx.z is odd, of one chunk and group: sums over the heads of the group.
template <typename T>
__global__ void __launch_bounds__(kSsdThreads)
    ssd_grad_group_kernel(const __grid_constant__ SsdGeneralArguments a) {
  __shared__ device::SsdShared shared;
  const bool of_b = blockIdx.z % 2 != 0;
  const int first = static_cast<int>(blockIdx.z) / 2 * kSsdTile;
  const int group = static_cast<int>(blockIdx.y);
  const int share = a.num_heads / a.num_groups;
  const DeltaRuleChunkRows rows = a.chunks[blockIdx.x];
  device::SsdTile tile;
  device::clear(tile);
  for (int head = group * share; head < (group + 1) * share; ++head) {
    const device::SsdHeadChunk<T> chunk(a, shared, static_cast<int>(blockIdx.x), head);
    fill_weights(chunk, a.head_dim, shared);
    if (of_b) {
      device::add_ssd_product<false>(
          tile, kSsdTile, shared, [&](int j, int i) { return shared.square[i][j]; },
          [&](int i, int n) { return chunk.c(i, first + n); });
      if (chunk.is_last()) continue;
      device::add_ssd_product<true>(
          tile, a.head_dim, shared,
          [&](int j, int p) { return chunk.to_end(j) * chunk.step(j) * chunk.x(j, p); },
          [&](int p, int n) { return chunk.grad_next(first + n, p); });
    } else {
      device::add_ssd_product<true>(
          tile, kSsdTile, shared, [&](int i, int j) { return shared.square[i][j]; },
          [&](int j, int n) { return chunk.b(j, first + n); });
      if (chunk.is_first()) continue;
      device::add_ssd_product<true>(
          tile, a.head_dim, shared, [&](int i, int p) { return chunk.decay(i) * chunk.grad(i, p); },
          [&](int p, int n) { return chunk.state(first + n, p); });
    }
  }
  T* const to = static_cast<T*>(of_b ? a.grad_b : a.grad_c);
  const std::int64_t stride = of_b ? a.grad_b_stride : a.grad_c_stride;
  device::for_ssd_tile(tile, [&](int i, int n, float& sum) {
    if (i >= rows.num_rows || first + n >= a.state_dim) return;
    to[(std::int64_t{rows.first_row} + i) * stride + std::int64_t{group} * a.state_dim + first +
       n] = device::from_float<T>(sum);
  });
}

template <typename T>
void launch_gradients_of(const SsdGeneralArguments& a, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>(a.num_chunks);
  const auto heads = static_cast<unsigned>(a.num_heads);
  if (a.has_slots) {
    const int tiles = device::ssd_tiles(a.state_dim) * device::ssd_tiles(a.head_dim);
    ssd_grad_states_kernel<T>
        <<<dim3(chunks, heads, static_cast<unsigned>(tiles)), kSsdThreads, 0, stream>>>(a);
    PACKTRAIN_CUDA_CHECK(cudaGetLastError());
    const int size = a.state_dim * a.head_dim;
    const dim3 elements(static_cast<unsigned>(a.num_sequences), heads,
                        static_cast<unsigned>((size + kSsdThreads - 1) / kSsdThreads));
    ssd_grad_pass_kernel<<<elements, kSsdThreads, 0, stream>>>(a);
    PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  }
  ssd_grad_rows_kernel<T><<<dim3(chunks, heads), kSsdThreads, 0, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  const dim3 groups(chunks, static_cast<unsigned>(a.num_groups),
                    static_cast<unsigned>(2 * device::ssd_tiles(a.state_dim)));
  ssd_grad_group_kernel<T><<<groups, kSsdThreads, 0, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_ssd_gradients(const SsdGeneralArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_gradients_of<__nv_bfloat16>(arguments, on)
                                         : launch_gradients_of<float>(arguments, on);
}

}  // namespace packtrain
