// Forward of attention with heads of 512 elements (FlashAttention-2's algorithm, Dao, arXiv
// 2307.08691). A block of threads has 64 queries of one head and reads tiles of keys. The scores of
// a tile are of four warps' rows by two warps' keys. Then each warp has 32 rows by 128 columns of
// the output in registers. Weights in bfloat16 and the rows' factors pass through shared memory.
#include "models/ops/attention/wide/rows.cuh"

namespace packtrain {
namespace {

using device::WideElement;
using device::WideRows;

constexpr int kQueries = 64;

template <int kKeys>
struct ForwardShared {
  using Weights = device::MatrixTile<kKeys>;
  static constexpr int kQuery = 0;
  static constexpr int kKey = kQuery + kQueries * WideRows::kRowBytes;
  static constexpr int kValue = kKey + kKeys * WideRows::kRowBytes;
  static constexpr int kWeights = kValue + kKeys * WideRows::kRowBytes;
  static constexpr int kMax = kWeights + kQueries * Weights::kRowBytes;  // two of each row
  static constexpr int kFactor = kMax + 2 * kQueries * 4;
  static constexpr int kBytes = kFactor + kQueries * 4;
};

// A lane has the state of rows lane / 4 and lane / 4 + 8 of its warp's scores. Units are those of
// log2.
struct RowState {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's keys
};

template <int kKeys>
class WideForward {
 public:
  static constexpr int kSharedBytes = ForwardShared<kKeys>::kBytes;
  static constexpr int kTileRows = kQueries;

  __device__ WideForward(const WideAttentionArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  __device__ void run() {
    at_ = device::find_tile(a_, a_.cu_queries, kQueries,
                            static_cast<int>(gridDim.x - 1 - blockIdx.x));
    first_ = at_.tile * kQueries;
    if (first_ >= at_.num_queries) return;
    find_keys();
    load_queries();
    load_keys(a_.key, begin_, Place::kKey);
    device::cp_async_commit_group();
    load_keys(a_.value, begin_, Place::kValue);
    device::cp_async_commit_group();
    for (int key = begin_; key < end_; key += kKeys) add_keys(key);
    write();
  }

 private:
  using Place = ForwardShared<kKeys>;
  using Weights = typename Place::Weights;
  static constexpr int kPairs = kKeys / 32;  // of 16 keys, of a warp's scores

  __device__ static int score_row() { return device::wide_warp() / 2 * 16; }
  __device__ static int score_column() { return device::wide_warp() % 2 * (kKeys / 2); }
  __device__ static int output_row() { return device::wide_warp() / 4 * 32; }
  __device__ static int output_chunk() { return device::wide_warp() % 4 * 16; }
  __device__ float* of_rows(int place) const { return reinterpret_cast<float*>(shared_ + place); }
  __device__ int head() const { return static_cast<int>(blockIdx.y); }
  __device__ std::int64_t first_row() const { return at_.first_query + first_; }

  // The keys that any query of the tile sees, from the start of a tile of keys on.
  __device__ void find_keys() {
    const int last_query = min(first_ + kQueries, at_.num_queries) - 1;
    end_ = last_query + at_.before() + 1;
    const int first = a_.window > 0 ? max(0, first_ + at_.before() - a_.window + 1) : 0;
    begin_ = first / kKeys * kKeys;
  }

  __device__ void load_queries() {
    const device::WideSource query =
        device::wide_source(a_.query, at_.first_query, a_.query_stride, head(), at_.num_queries);
    device::load_wide_rows<kQueries>(query, first_, shared_ + Place::kQuery);
  }
  __device__ void load_keys(const void* tensor, int key, int place) {
    if (key >= end_) return;
    const int kv_head = head() / (a_.num_heads / a_.num_kv_heads);
    const device::WideSource keys =
        device::wide_source(tensor, at_.first_key, a_.key_stride, kv_head, at_.num_keys);
    device::load_wide_rows<kKeys>(keys, key, shared_ + place);
  }

  __device__ void add_keys(int key) {
    float scores[1][2 * kPairs][4] = {};
    device::cp_async_wait_group<1>();
    __syncthreads();  // the keys are there
    device::multiply_wide_rows<1, kPairs>(address_ + Place::kQuery, score_row(),
                                          address_ + Place::kKey, score_column(), scores);
    mask(key, scores[0]);
    write_max(scores[0]);
    __syncthreads();  // the keys were read, and all maxima are there
    load_keys(a_.key, key + kKeys, Place::kKey);
    device::cp_async_commit_group();
    write_weights(scores[0]);
    device::cp_async_wait_group<1>();
    __syncthreads();  // values and weights are there
    scale_output();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      device::add_wide_rows<Weights>(address_ + Place::kWeights, output_row(), 2 * k,
                                     address_ + Place::kValue, 16 * k, output_chunk(), output_);
    }
    __syncthreads();  // values and weights were read
    load_keys(a_.value, key + kKeys, Place::kValue);
    device::cp_async_commit_group();
  }

  // Scores in units of log2. Those of keys that a query does not see become minus infinity.
  __device__ void mask(int key, float (&scores)[2 * kPairs][4]) const {
    const float factor = a_.scale * device::kLog2E;
    const int position = first_ + at_.before() + score_row() + device::wide_lane() / 4;
    const int column = key + score_column() + device::wide_lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < 2 * kPairs; ++n) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int distance = position + r / 2 * 8 - (column + 8 * n + r % 2);
        scores[n][r] = device::sees_key(a_, distance) ? scores[n][r] * factor : -INFINITY;
      }
    }
  }

  __device__ void write_max(const float (&scores)[2 * kPairs][4]) const {
    float* const max = of_rows(Place::kMax) + device::wide_warp() % 2 * kQueries;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = -INFINITY;
#pragma unroll
      for (int n = 0; n < 2 * kPairs; ++n) {
        most = fmaxf(most, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
      if (device::wide_lane() % 4 == 0) {
        max[score_row() + device::wide_lane() / 4 + 8 * half] = most;
      }
    }
  }

  // Writes the tile's weights, and the factors of what the output has so far.
  __device__ void write_weights(const float (&scores)[2 * kPairs][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = score_row() + device::wide_lane() / 4 + 8 * half;
      const float* const max = of_rows(Place::kMax) + row;
      const float most = fmaxf(rows_.max[half], fmaxf(max[0], max[kQueries]));
      const float base = most == -INFINITY ? 0 : most;  // a window may have no key of the tile
      const float factor = device::power_of_2(rows_.max[half] - base);
      rows_.max[half] = most;
      rows_.sum[half] *= factor;
      if (device::wide_warp() % 2 == 0 && device::wide_lane() % 4 == 0) {
        of_rows(Place::kFactor)[row] = factor;
      }
#pragma unroll
      for (int n = 0; n < 2 * kPairs; ++n) {
        const float first = device::power_of_2(scores[n][2 * half] - base);
        const float second = device::power_of_2(scores[n][2 * half + 1] - base);
        rows_.sum[half] += first + second;
        *reinterpret_cast<std::uint32_t*>(
            shared_ + Place::kWeights + Weights::place(row, score_column() / 8 + n) +
            device::wide_lane() % 4 * 4) = device::bfloat16_pair(first, second);
      }
    }
  }

  __device__ void scale_output() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float factor[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factor[half] =
            of_rows(Place::kFactor)[output_row() + 16 * i + 8 * half + device::wide_lane() / 4];
      }
      if (__all_sync(~0U, factor[0] == 1 && factor[1] == 1)) continue;
#pragma unroll
      for (int n = 0; n < 16; ++n) {
#pragma unroll
        for (int r = 0; r < 4; ++r) output_[i][n][r] *= factor[r / 2];
      }
    }
  }

  // The maxima are no longer needed: their place has the sums of the two halves of the keys.
  __device__ void write() {
    device::cp_async_wait_group<0>();
    float* const sums = of_rows(Place::kMax);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows_.sum[half];
      sum += __shfl_xor_sync(~0U, sum, 1);
      sum += __shfl_xor_sync(~0U, sum, 2);
      const int row = score_row() + device::wide_lane() / 4 + 8 * half;
      if (device::wide_lane() % 4 != 0) continue;
      sums[device::wide_warp() % 2 * kQueries + row] = sum;
      if (device::wide_warp() % 2 == 0) of_rows(Place::kFactor)[row] = rows_.max[half];
    }
    __syncthreads();
    const int row = static_cast<int>(threadIdx.x);
    if (row < kQueries && first_ + row < at_.num_queries) {
      a_.logsumexp[(first_row() + row) * a_.num_heads + head()] =
          (of_rows(Place::kFactor)[row] + log2f(sums[row] + sums[kQueries + row])) / device::kLog2E;
    }
    write_output(sums);
  }

  __device__ void write_output(const float* sums) const {
    const std::int64_t stride = std::int64_t{a_.num_heads} * kWideHeadDim;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int begin = output_row() + 16 * i;
      float factor[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = begin + 8 * half + device::wide_lane() / 4;
        factor[half] = 1 / (sums[row] + sums[kQueries + row]);
      }
      auto* to = static_cast<WideElement*>(a_.output) + (first_row() + begin) * stride +
                 head() * kWideHeadDim + output_chunk() * 8;
      device::write_wide_rows(output_[i], factor, to, stride, at_.num_queries - first_ - begin);
    }
  }

  const WideAttentionArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  device::WideTile at_;
  int first_ = 0;  // query of the tile
  int begin_ = 0;  // keys
  int end_ = 0;
  RowState rows_;
  float output_[2][16][4] = {};
};

}  // namespace

void launch_wide_attention_forward(const WideAttentionArguments& arguments, void* stream) {
  using Small = WideForward<32>;
  using Large = WideForward<64>;
  static_assert(Small::kSharedBytes <= kSmallWideSharedBytes);
  static_assert(Large::kSharedBytes <= kWideSharedBytes);
  const auto launch = arguments.is_small ? device::launch_wide<Small> : device::launch_wide<Large>;
  launch(arguments, arguments.num_rows, arguments.num_heads, stream);
}

}  // namespace packtrain
