// One block of threads has a sequence and one head of queries and keys, with all heads of values
// that share it. It computes one chunk after another. All sums are in float32 and in a fixed order.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/delta_rule/general.cuh"

namespace packtrain {
namespace {

using device::GeneralShared;
using device::kGeneralRows;
using device::kGeneralThreads;

template <typename T>
class GeneralForward : public device::GeneralChunk<T> {
 public:
  using device::GeneralChunk<T>::GeneralChunk;

  __device__ void run(const DeltaRuleSequence& sequence) {
    for (int i = 0; i < sequence.num_chunks; ++i) {
      this->move_to(sequence.first_chunk + i);
      this->fill_shared();
      this->solve();
      write_output();
      __syncthreads();
      this->advance();
    }
  }

 private:
  __device__ void write_output() const {
    const auto& a = this->a_;
    device::for_elements(this->rows(), a.value_dim, [&](int i, int c) {
      float sum = 0;
      for (int m = 0; !this->is_first() && m < a.key_dim; ++m) {
        sum = fmaf(this->q(i, m), this->state()[m * a.value_dim + c], sum);
      }
      sum *= a.scale * this->decay(i);
      for (int j = 0; j <= i; ++j) sum = fmaf(this->shared_.scores[i][j], this->d(j, c), sum);
      static_cast<T*>(a.output)[this->value_at(i, c)] = device::from_float<T>(sum);
    });
  }
};

template <typename T>
class GeneralBackward : public device::GeneralChunk<T> {
 public:
  using device::GeneralChunk<T>::GeneralChunk;

  __device__ void run(const DeltaRuleSequence& sequence) {
    for (int i = 0; i < sequence.num_chunks; ++i) {
      this->move_to(sequence.first_chunk + i);
      this->fill_shared();
      this->solve();
      this->advance();
    }
    for (int i = sequence.num_chunks; i-- > 0;) {
      this->move_to(sequence.first_chunk + i);
      this->fill_shared();
      write_right();
      write_squares();
      write_rows();
      const float states = state_products();
      write_scalars(states);
      step_back();
    }
  }

 private:
  __device__ float& e(int i, int c) const { return this->a_.grad_d[this->value_at(i, c)]; }
  __device__ float grad_state_at(int m, int c) const {
    return this->is_last() ? 0 : this->grad_state()[m * this->a_.value_dim + c];
  }

  // e and dv.
  __device__ void write_right() const {
    const auto& a = this->a_;
    const auto& shared = this->shared_;
    device::for_elements(this->rows(), a.value_dim, [&](int i, int c) {
      float sum = 0;
      for (int m = 0; !this->is_last() && m < a.key_dim; ++m) {
        sum = fmaf(this->k(i, m), grad_state_at(m, c), sum);
      }
      sum *= this->to_end(i);
      for (int j = i; j < this->rows(); ++j) {
        sum = fmaf(shared.scores[j][i], this->grad_output(j, c), sum);
      }
      e(i, c) = sum;
    });
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < a.value_dim; c += kGeneralThreads) {
      for (int i = this->rows(); i-- > 0;) {
        float sum = e(i, c);
        for (int j = i + 1; j < this->rows(); ++j) sum = fmaf(-shared.lower[j][i], e(j, c), sum);
        e(i, c) = sum;
        static_cast<T*>(a.grad_v)[this->value_at(i, c)] =
            device::from_float<T>(shared.beta[i] * sum);
      }
    }
    __syncthreads();
  }

  // A over the scores, B over L.
  __device__ void write_squares() const {
    device::for_elements(this->rows(), this->rows(), [&](int i, int j) {
      float scores = 0;
      float lower = 0;
      for (int c = 0; j <= i && c < this->a_.value_dim; ++c) {
        scores = fmaf(this->grad_output(i, c), this->d(j, c), scores);
        lower = fmaf(e(i, c), this->d(j, c), lower);
      }
      this->shared_.scores[i][j] = this->a_.scale * this->ratio(i, j) * scores;
      this->shared_.lower[i][j] = j < i ? -this->ratio(i, j) * lower : 0;
    });
    __syncthreads();
  }

  struct KeyGradients {
    float query;    // dq
    float product;  // P
    float ended;    // E
    float key;      // dk
  };

  __device__ KeyGradients key_gradients(int i, int m) const {
    const auto& a = this->a_;
    const auto& shared = this->shared_;
    float of_query = 0;
    float of_right = 0;
    float ended = 0;
    for (int c = 0; c < a.value_dim; ++c) {
      const float state = this->is_first() ? 0 : this->state()[m * a.value_dim + c];
      of_query = fmaf(this->grad_output(i, c), state, of_query);
      of_right = fmaf(e(i, c), state, of_right);
      ended = fmaf(this->d(i, c), grad_state_at(m, c), ended);
    }
    KeyGradients grads = {a.scale * this->decay(i) * of_query, -this->decay(i) * of_right,
                          this->to_end(i) * ended, 0};
    for (int j = 0; j <= i; ++j) {
      grads.query = fmaf(shared.scores[i][j], this->k(j, m), grads.query);
      grads.product = fmaf(shared.lower[i][j], this->k(j, m), grads.product);
    }
    grads.key = shared.beta[i] * grads.product + grads.ended;
    for (int j = i; j < this->rows(); ++j) {
      grads.key = fmaf(shared.scores[j][i], this->q(j, m), grads.key);
      grads.key = fmaf(shared.beta[j] * shared.lower[j][i], this->k(j, m), grads.key);
    }
    return grads;
  }

  // dq and dk, and sums over a row's columns: da, dbeta and k E. A warp has a row.
  __device__ void write_rows() const {
    const auto& a = this->a_;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = static_cast<int>(threadIdx.x) / 32; i < this->rows(); i += kGeneralThreads / 32) {
      float sums[3] = {};
      for (int m = lane; m < a.key_dim; m += 32) {
        const KeyGradients grads = key_gradients(i, m);
        const float key = this->k(i, m);
        sums[0] += this->q(i, m) * grads.query - key * grads.key +
                   2 * this->shared_.beta[i] * key * grads.product;
        sums[1] = fmaf(key, grads.product, sums[1]);
        sums[2] = fmaf(key, grads.ended, sums[2]);
        add_to_head(i, m, grads.query, a.grad_q_sums, static_cast<T*>(a.grad_q));
        add_to_head(i, m, grads.key, a.grad_k_sums, static_cast<T*>(a.grad_k));
      }
      for (int c = lane; c < a.value_dim; c += 32) sums[1] = fmaf(e(i, c), this->v(i, c), sums[1]);
      for (int s = 0; s < 3; ++s) {
        sums[s] = device::warp_sum(sums[s]);
        if (lane == 0) this->shared_.row_sums[s][i] = sums[s];
      }
    }
    __syncthreads();
  }

  // The same thread has an element for all heads of values that share the key.
  __device__ void add_to_head(int i, int m, float value, float* sums, T* grad) const {
    const int group = this->a_.num_heads / this->a_.num_key_heads;
    const std::int64_t at = this->key_at(i, m);
    if (this->head_ % group > 0) value += sums[at];
    sums[at] = value;
    if (this->head_ % group == group - 1) grad[at] = device::from_float<T>(value);
  }

  // S dS.
  __device__ float state_products() const {
    float sum = 0;
    if (!this->is_first() && !this->is_last()) {
      device::for_elements(this->a_.key_dim, this->a_.value_dim, [&](int m, int c) {
        sum = fmaf(this->state()[m * this->a_.value_dim + c], grad_state_at(m, c), sum);
      });
    }
    return device::block_sum(sum, this->shared_.scratch);
  }

  __device__ void write_scalars(float states) const {
    if (threadIdx.x != 0) return;
    float sum = this->decay(kGeneralRows - 1) * states;
    for (int i = 0; i < this->rows(); ++i) sum += this->shared_.row_sums[2][i];
    for (int i = this->rows(); i-- > 0;) {
      sum += this->shared_.row_sums[0][i];
      const bool decays_nothing = this->is_first() && i == 0;
      this->a_.grad_g[this->scalar_at(i)] = decays_nothing ? 0 : sum;
      this->a_.grad_beta[this->scalar_at(i)] = this->shared_.row_sums[1][i];
    }
  }

  // The gradient of the state before the chunk.
  __device__ void step_back() const {
    const auto& a = this->a_;
    if (this->is_first()) return;
    device::for_elements(a.key_dim, a.value_dim, [&](int m, int c) {
      float sum = this->decay(kGeneralRows - 1) * grad_state_at(m, c);
      for (int i = 0; i < this->rows(); ++i) {
        const float decay = this->decay(i);
        sum = fmaf(this->q(i, m) * a.scale * decay, this->grad_output(i, c), sum);
        sum = fmaf(-this->k(i, m) * decay * this->shared_.beta[i], e(i, c), sum);
      }
      this->grad_state()[m * a.value_dim + c] = sum;
    });
    __syncthreads();
  }
};

template <typename T, bool kBackward>
__global__ void __launch_bounds__(kGeneralThreads)
    delta_rule_general_kernel(const __grid_constant__ DeltaRuleGeneralArguments a) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<GeneralShared*>(shared_bytes);
  const int sequence = static_cast<int>(blockIdx.x) / a.num_key_heads;
  const int group = a.num_heads / a.num_key_heads;
  for (int member = 0; member < group; ++member) {
    const int head = static_cast<int>(blockIdx.x) % a.num_key_heads * group + member;
    if constexpr (kBackward) {
      GeneralBackward<T>(a, shared, sequence, head).run(a.sequences[sequence]);
    } else {
      GeneralForward<T>(a, shared, sequence, head).run(a.sequences[sequence]);
    }
  }
}

template <typename T, bool kBackward>
void launch_general(const DeltaRuleGeneralArguments& a, cudaStream_t stream) {
  const auto kernel = delta_rule_general_kernel<T, kBackward>;
  constexpr int kBytes = sizeof(GeneralShared);
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto blocks = static_cast<unsigned>(a.num_sequences * a.num_key_heads);
  kernel<<<blocks, kGeneralThreads, kBytes, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

template <typename T>
void launch_general_of(const DeltaRuleGeneralArguments& a, cudaStream_t stream) {
  a.grad_output == nullptr ? launch_general<T, false>(a, stream)
                           : launch_general<T, true>(a, stream);
}

}  // namespace

void launch_delta_rule_general(const DeltaRuleGeneralArguments& arguments, void* stream) {
  if (arguments.num_sequences == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_general_of<__nv_bfloat16>(arguments, on)
                                         : launch_general_of<float>(arguments, on);
}

}  // namespace packtrain
