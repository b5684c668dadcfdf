// The recurrence over the chunks of a sequence. S is the state before a chunk, W and U are those of
// chunks.cu:
//    d = U - W S
//    o = scale exp(a) q S + scores d
//    S <- exp(a_last) S + k^T (exp(a_last - a) d)
// Forward writes o. Backward writes d over U, and S after each chunk but the last one.
#include "models/ops/delta_rule/recurrence.cuh"

namespace packtrain {
namespace {

using device::kDeltaRows;

// Places in shared memory, in bytes.
template <int K, int V, bool kBackward>
struct StateShared {
  using Keys = device::MatrixTile<K>;
  using Values = device::MatrixTile<V>;
  using Scores = device::MatrixTile<kDeltaRows>;
  static constexpr int kKeyBytes = kDeltaRows * Keys::kRowBytes;
  static constexpr int kValueBytes = kDeltaRows * Values::kRowBytes;
  static constexpr int kW = 0;
  static constexpr int kKey = kW + kKeyBytes;
  static constexpr int kU = kKey + kKeyBytes;
  static constexpr int kQuery = kU + kValueBytes;  // this and the scores forward only
  static constexpr int kScores = kQuery + kKeyBytes;
  static constexpr int kStageBytes = kBackward ? kQuery : kScores + kDeltaRows * Scores::kRowBytes;
  static constexpr int kState = 2 * kStageBytes;
  static constexpr int kD = kState + K * Values::kRowBytes;
  static constexpr int kEndedD = kD + kValueBytes;  // exp(a_last - a) d
  static constexpr int kBytes = kEndedD + kValueBytes;
  static_assert(kBytes <= (V == 128 ? kDeltaRuleWideBytes : kDeltaRuleSharedBytes));
};

template <int K, int V, bool kBackward>
class StateRecurrence {
 public:
  using Place = StateShared<K, V, kBackward>;

  __device__ StateRecurrence(const DeltaRuleArguments& a, unsigned char* shared)
      : a_(a),
        block_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  __device__ void run() {
    device::run_chunks(*this, a_, block_.head, block_.begin, block_.end - block_.begin, 1);
  }

  __device__ void load(const device::ChunkHead& of, int chunk, int stage) {
    if (kBackward && is_alone(of)) return;
    unsigned char* to = shared_ + stage * Place::kStageBytes;
    const int present = of.rows.num_rows;
    if (of.rows.slot_before >= 0) {
      device::copy_tile<Keys, kDeltaRows, kThreads>(device::elements(a_.w) + of.w_offset(),
                                                    of.w_stride(), present, a_.key_dim,
                                                    to + Place::kW);
    }
    if (of.rows.slot_after >= 0) {
      device::copy_tile<Keys, kDeltaRows, kThreads>(of.k(), a_.k_stride, present, a_.key_dim,
                                                    to + Place::kKey);
    }
    device::copy_tile<Values, kDeltaRows, kThreads>(
        device::elements(a_.d) + of.value_offset() + block_.column, of.value_stride(), present,
        a_.value_dim - block_.column, to + Place::kU);
    if constexpr (!kBackward) {
      if (of.rows.slot_before >= 0) {
        device::copy_tile<Keys, kDeltaRows, kThreads>(of.q(), a_.q_stride, present, a_.key_dim,
                                                      to + Place::kQuery);
      }
      device::copy_tile<Scores, kDeltaRows, kThreads>(device::elements(a_.scores) + of.index(chunk),
                                                      kDeltaRows, kDeltaRows, kDeltaRows,
                                                      to + Place::kScores);
    }
  }

  __device__ void step(const device::ChunkHead& of, int /*chunk*/, int stage,
                       const device::ChunkDecays& decays) {
    if (kBackward && is_alone(of)) return;
    const int at = stage * Place::kStageBytes;
    const int m = device::warp_row();
    const int n = kColumns * device::warp_part();
    write_d(of, at, decays);
    float output[kColumns / 8][4] = {};
    if (!kBackward && of.rows.slot_before >= 0) {
      device::multiply_tiles<Keys, false, Values, true>(
          address_ + at + Place::kQuery, m, address_ + Place::kState, n, 0, K / 16, output);
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) output[t][e] *= a_.scale * decays.from_begin(e / 2);
      }
    }
    __syncthreads();  // d is there, and products have read the state
    if constexpr (!kBackward) {
      device::multiply_tiles<Scores, false, Values, true>(address_ + at + Place::kScores, m,
                                                          address_ + Place::kD, n, 0,
                                                          device::lower_steps(), output);
      device::write_sums(output, m, n,
                         device::elements(a_.output) + of.value_offset() + block_.column,
                         of.value_stride(), of.rows.num_rows, a_.value_dim - block_.column);
    }
    if (of.rows.slot_after >= 0) update_state(of, at, decays);
  }

 private:
  using Keys = typename Place::Keys;
  using Values = typename Place::Values;
  using Scores = typename Place::Scores;
  using Warps = device::StateWarps<K, V>;
  static constexpr int kThreads = device::kRecurrenceThreads<V>;
  static constexpr int kColumns = V / (kThreads / 128);  // of a warp in products of 64 rows

  // Backward has nothing to do for a sequence of one chunk, whose d is U.
  __device__ static bool is_alone(const device::ChunkHead& of) {
    return of.rows.slot_before < 0 && of.rows.slot_after < 0;
  }

  __device__ void write_d(const device::ChunkHead& of, int at, const device::ChunkDecays& decays) {
    const int m = device::warp_row();
    const int n = kColumns * device::warp_part();
    float sums[kColumns / 8][4] = {};
    if (of.rows.slot_before >= 0) {
      device::multiply_tiles<Keys, false, Values, true>(
          address_ + at + Place::kW, m, address_ + Place::kState, n, 0, K / 16, sums);
    }
    device::for_lane_rows(m, [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
        const float2 u = device::load_pair<Values>(shared_ + at + Place::kU, row, n, t);
        float* d = &sums[t][2 * half];
        d[0] = u.x - d[0];
        d[1] = u.y - d[1];
        if (!kBackward) device::store_pair<Values>(shared_ + Place::kD, row, n, t, d[0], d[1]);
        device::store_pair<Values>(shared_ + Place::kEndedD, row, n, t, d[0] * decays.to_end(half),
                                   d[1] * decays.to_end(half));
      }
    });
    if (kBackward && of.rows.slot_before >= 0) {
      device::write_sums(sums, m, n, device::elements(a_.d) + of.value_offset() + block_.column,
                         of.value_stride(), of.rows.num_rows, a_.value_dim - block_.column);
    }
  }

  __device__ void update_state(const device::ChunkHead& of, int at,
                               const device::ChunkDecays& decays) {
#pragma unroll
    for (int t = 0; t < Warps::kColumns / 8; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        state_[t][e] = of.rows.slot_before < 0 ? 0 : state_[t][e] * decays.whole();
      }
    }
    device::multiply_tiles<Keys, true, Values, true>(address_ + at + Place::kKey, Warps::row(),
                                                     address_ + Place::kEndedD, Warps::column(), 0,
                                                     4, state_);
    device::for_lane_rows(Warps::row(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < Warps::kColumns / 8; ++t) {
        device::store_pair<Values>(shared_ + Place::kState, row, Warps::column(), t,
                                   state_[t][2 * half], state_[t][2 * half + 1]);
      }
    });
    if constexpr (kBackward) {
      device::write_sums(state_, Warps::row(), Warps::column(),
                         device::elements(a_.states) + of.state(of.rows.slot_after) + block_.column,
                         a_.value_dim, a_.key_dim, a_.value_dim - block_.column);
    }
  }

  const DeltaRuleArguments& a_;
  device::RecurrenceBlock<V> block_;
  unsigned char* shared_;
  std::uint32_t address_;
  float state_[Warps::kColumns / 8][4] = {};
};

template <int K, int V, bool kBackward>
__global__ void __launch_bounds__(device::kRecurrenceThreads<V>, 1)
    delta_rule_states_kernel(const __grid_constant__ DeltaRuleArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  StateRecurrence<K, V, kBackward>(a, shared).run();
}

template <int K, int V>
void launch_states(const DeltaRuleArguments& a, cudaStream_t stream) {
  if (a.grad_output == nullptr) {
    device::launch_recurrence<V>(delta_rule_states_kernel<K, V, false>,
                                 StateShared<K, V, false>::kBytes, a, stream);
  } else {
    device::launch_recurrence<V>(delta_rule_states_kernel<K, V, true>,
                                 StateShared<K, V, true>::kBytes, a, stream);
  }
}

}  // namespace

void launch_delta_rule_states(const DeltaRuleArguments& arguments, void* stream) {
  device::with_instance(arguments, [&](auto keys, auto columns) {
    launch_states<decltype(keys)::value, decltype(columns)::value>(
        arguments, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace packtrain
