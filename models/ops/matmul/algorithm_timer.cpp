#include "models/ops/matmul/algorithm_timer.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "framework/device/cuda/check.h"

namespace packtrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Another algorithm must be below this ratio of the heuristic's first choice. Short runs have
// higher clocks than a step. A smaller difference disappears when the GPU runs at its power limit
// (Llama-3-8B's GEMMs of 8,192 tokens: 0.3 % slower at 0.99 than at 0.97, docs/performance.md).
constexpr double kClearlyFaster = 0.97;
constexpr double kOutOfTheRace = 1.15;  // dropped when slower than the best by this
constexpr double kRoundMicroseconds = 300;
constexpr int kMaxRepeats = 16;
constexpr int kNumRounds = 3;
constexpr double kLongMicroseconds = 1000;  // a GEMM this long is timed by one run

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

Event make_event() {
  cudaEvent_t event = nullptr;
  PACKTRAIN_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}

  void start() { PACKTRAIN_CUDA_CHECK(cudaEventRecord(start_.get(), stream_)); }
  double stop_microseconds() {
    PACKTRAIN_CUDA_CHECK(cudaEventRecord(stop_.get(), stream_));
    PACKTRAIN_CUDA_CHECK(cudaEventSynchronize(stop_.get()));
    float milliseconds = 0;
    PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
    return milliseconds * 1e3;
  }

 private:
  cudaStream_t stream_;
  Event start_ = make_event();
  Event stop_ = make_event();
};

// Candidates alternate, so that all run at the same clocks.
class Race {
 public:
  Race(cublasLtHandle_t handle, GemmDescriptors& descriptors, const GemmCall& call,
       const std::vector<cublasLtMatmulAlgo_t>& candidates, const GemmWorkspace& workspace)
      : handle_(handle),
        descriptors_(descriptors),
        call_(call),
        candidates_(candidates),
        workspace_(workspace),
        watch_(workspace.stream),
        last_(candidates.size(), 0),
        total_(candidates.size(), 0) {}

  void run_round(int repeats) {
    ++num_rounds_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (total_[i] == kNever) continue;
      watch_.start();
      for (int r = 0; r < repeats; ++r) {
        const auto status = descriptors_.run(handle_, call_, candidates_[i], workspace_);
        if (status != CUBLAS_STATUS_SUCCESS) total_[i] = kNever;
      }
      last_[i] = watch_.stop_microseconds() / repeats;
      total_[i] += last_[i];
    }
  }

  // Compares the times of the last round and discards the times of all rounds.
  void drop_slower_than(double ratio) {
    const double best = fastest(last_);
    for (std::size_t i = 0; i < total_.size(); ++i) {
      total_[i] = total_[i] < kNever && last_[i] <= ratio * best ? 0 : kNever;
    }
    num_rounds_ = 0;
  }

  double fastest_of_round() const { return fastest(last_); }

  AlgorithmTimes result() const {
    AlgorithmTimes times;
    for (const double total : total_) times.microseconds.push_back(total / num_rounds_);
    for (std::size_t i = 1; i < total_.size(); ++i) {
      if (total_[i] < kClearlyFaster * total_[0] && total_[i] < total_[times.best]) times.best = i;
    }
    return times;
  }

 private:
  double fastest(const std::vector<double>& times) const {
    double best = kNever;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (total_[i] < kNever) best = std::min(best, times[i]);
    }
    return best;
  }

  cublasLtHandle_t handle_;
  GemmDescriptors& descriptors_;
  const GemmCall& call_;
  const std::vector<cublasLtMatmulAlgo_t>& candidates_;
  const GemmWorkspace& workspace_;
  Stopwatch watch_;
  int num_rounds_ = 0;
  std::vector<double> last_;
  std::vector<double> total_;
};

}  // namespace

AlgorithmTimes time_algorithms(cublasLtHandle_t handle, GemmDescriptors& descriptors,
                               const GemmCall& call,
                               const std::vector<cublasLtMatmulAlgo_t>& candidates,
                               const GemmWorkspace& workspace) {
  Race race(handle, descriptors, call, candidates, workspace);
  race.run_round(1);  // loads the kernels; not counted
  race.run_round(1);
  race.drop_slower_than(kOutOfTheRace);
  const double microseconds = race.fastest_of_round();
  const int repeats =
      std::clamp(static_cast<int>(kRoundMicroseconds / microseconds), 1, kMaxRepeats);
  const int num_rounds = microseconds < kLongMicroseconds ? kNumRounds : 1;
  for (int round = 0; round < num_rounds; ++round) race.run_round(repeats);
  return race.result();
}

}  // namespace packtrain
