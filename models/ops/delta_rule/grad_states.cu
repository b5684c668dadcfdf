// Computes gradients from the last chunk of a sequence to the first one. The gradient of the state
// after a chunk is dS. W is that of chunks.cu. A chunk has two steps:
//    dd = scores^T do + exp(a_last - a) k dS
//    dS <- exp(a_last) dS + q^T (scale exp(a) do) - W^T dd
// Writes dd, and dS after each chunk but the last one.
#include "models/ops/delta_rule/recurrence.cuh"

namespace packtrain {
namespace {

using device::kDeltaRows;

// Places in shared memory, in bytes.
template <int K, int V>
struct GradStateShared {
  using Keys = device::MatrixTile<K>;
  using Values = device::MatrixTile<V>;
  using Scores = device::MatrixTile<kDeltaRows>;
  static constexpr int kKeyBytes = kDeltaRows * Keys::kRowBytes;
  static constexpr int kValueBytes = kDeltaRows * Values::kRowBytes;
  static constexpr int kW = 0;
  static constexpr int kKey = kW + kKeyBytes;
  static constexpr int kQuery = kKey + kKeyBytes;
  static constexpr int kScores = kQuery + kKeyBytes;
  static constexpr int kGrad = kScores + kDeltaRows * Scores::kRowBytes;  // of the output
  static constexpr int kStageBytes = kGrad + kValueBytes;
  static constexpr int kState = 2 * kStageBytes;
  static constexpr int kMinusD = kState + K * Values::kRowBytes;  // -dd
  static constexpr int kDecayedGrad = kMinusD + kValueBytes;      // scale exp(a) do
  static constexpr int kBytes = kDecayedGrad + kValueBytes;
  static_assert(kBytes <= (V == 128 ? kDeltaRuleWideBytes : kDeltaRuleSharedBytes));
};

template <int K, int V>
class GradStateRecurrence {
 public:
  using Place = GradStateShared<K, V>;

  __device__ GradStateRecurrence(const DeltaRuleArguments& a, unsigned char* shared)
      : a_(a),
        block_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  __device__ void run() {
    device::run_chunks(*this, a_, block_.head, block_.end - 1, block_.end - block_.begin, -1);
  }

  __device__ void load(const device::ChunkHead& of, int chunk, int stage) {
    unsigned char* to = shared_ + stage * Place::kStageBytes;
    const int present = of.rows.num_rows;
    if (of.rows.slot_before >= 0) {
      device::copy_tile<Keys, kDeltaRows, kThreads>(device::elements(a_.w) + of.w_offset(),
                                                    of.w_stride(), present, a_.key_dim,
                                                    to + Place::kW);
      device::copy_tile<Keys, kDeltaRows, kThreads>(of.q(), a_.q_stride, present, a_.key_dim,
                                                    to + Place::kQuery);
    }
    if (of.rows.slot_after >= 0) {
      device::copy_tile<Keys, kDeltaRows, kThreads>(of.k(), a_.k_stride, present, a_.key_dim,
                                                    to + Place::kKey);
    }
    device::copy_tile<Values, kDeltaRows, kThreads>(
        device::elements(a_.grad_output) + of.value_offset() + block_.column, of.value_stride(),
        present, a_.value_dim - block_.column, to + Place::kGrad);
    device::copy_tile<Scores, kDeltaRows, kThreads>(device::elements(a_.scores) + of.index(chunk),
                                                    kDeltaRows, kDeltaRows, kDeltaRows,
                                                    to + Place::kScores);
  }

  __device__ void step(const device::ChunkHead& of, int /*chunk*/, int stage,
                       const device::ChunkDecays& decays) {
    const int at = stage * Place::kStageBytes;
    write_grad_d(of, at, decays);
    if (of.rows.slot_before < 0) return;  // no gradient of the first state
    __syncthreads();
    update_state(of, at, decays);
  }

 private:
  using Keys = typename Place::Keys;
  using Values = typename Place::Values;
  using Scores = typename Place::Scores;
  using Warps = device::StateWarps<K, V>;
  static constexpr int kThreads = device::kRecurrenceThreads<V>;
  static constexpr int kColumns = V / (kThreads / 128);  // of a warp in products of 64 rows

  __device__ void write_grad_d(const device::ChunkHead& of, int at,
                               const device::ChunkDecays& decays) {
    const int m = device::warp_row();
    const int n = kColumns * device::warp_part();
    float sums[kColumns / 8][4] = {};
    if (of.rows.slot_after >= 0) {
      device::multiply_tiles<Keys, false, Values, true>(
          address_ + at + Place::kKey, m, address_ + Place::kState, n, 0, K / 16, sums);
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[t][e] *= decays.to_end(e / 2);
      }
    }
    device::multiply_tiles<Scores, true, Values, true>(address_ + at + Place::kScores, m,
                                                       address_ + at + Place::kGrad, n,
                                                       device::first_upper_step(), 4, sums);
    device::write_sums(sums, m, n, device::elements(a_.grad_d) + of.value_offset() + block_.column,
                       of.value_stride(), of.rows.num_rows, a_.value_dim - block_.column);
    if (of.rows.slot_before < 0) return;
    device::for_lane_rows(m, [&](int row, int half) {
      const float factor = a_.scale * decays.from_begin(half);
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
        device::store_pair<Values>(shared_ + Place::kMinusD, row, n, t, -sums[t][2 * half],
                                   -sums[t][2 * half + 1]);
        const float2 grad = device::load_pair<Values>(shared_ + at + Place::kGrad, row, n, t);
        device::store_pair<Values>(shared_ + Place::kDecayedGrad, row, n, t, factor * grad.x,
                                   factor * grad.y);
      }
    });
  }

  __device__ void update_state(const device::ChunkHead& of, int at,
                               const device::ChunkDecays& decays) {
    const int m = Warps::row();
    const int n = Warps::column();
#pragma unroll
    for (int t = 0; t < Warps::kColumns / 8; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        state_[t][e] = of.rows.slot_after < 0 ? 0 : state_[t][e] * decays.whole();
      }
    }
    device::multiply_tiles<Keys, true, Values, true>(
        address_ + at + Place::kQuery, m, address_ + Place::kDecayedGrad, n, 0, 4, state_);
    device::multiply_tiles<Keys, true, Values, true>(address_ + at + Place::kW, m,
                                                     address_ + Place::kMinusD, n, 0, 4, state_);
    device::for_lane_rows(m, [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < Warps::kColumns / 8; ++t) {
        device::store_pair<Values>(shared_ + Place::kState, row, n, t, state_[t][2 * half],
                                   state_[t][2 * half + 1]);
      }
    });
    device::write_sums(
        state_, m, n,
        device::elements(a_.grad_states) + of.state(of.rows.slot_before) + block_.column,
        a_.value_dim, a_.key_dim, a_.value_dim - block_.column);
  }

  const DeltaRuleArguments& a_;
  device::RecurrenceBlock<V> block_;
  unsigned char* shared_;
  std::uint32_t address_;
  float state_[Warps::kColumns / 8][4] = {};
};

template <int K, int V>
__global__ void __launch_bounds__(device::kRecurrenceThreads<V>, 1)
    delta_rule_grad_states_kernel(const __grid_constant__ DeltaRuleArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  GradStateRecurrence<K, V>(a, shared).run();
}

template <int K, int V>
void launch_grad_states(const DeltaRuleArguments& a, cudaStream_t stream) {
  device::launch_recurrence<V>(delta_rule_grad_states_kernel<K, V>, GradStateShared<K, V>::kBytes,
                               a, stream);
}

}  // namespace

void launch_delta_rule_grad_states(const DeltaRuleArguments& arguments, void* stream) {
  device::with_instance(arguments, [&](auto keys, auto columns) {
    launch_grad_states<decltype(keys)::value, decltype(columns)::value>(
        arguments, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace packtrain
