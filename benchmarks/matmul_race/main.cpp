// Short races of algorithms against long runs of each: matmul_race --help.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <vector>

#include "benchmarks/guarded_main.h"
#include "benchmarks/matmul_race/products.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "models/ops/matmul/algorithm_timer.h"

namespace packtrain {
namespace {

constexpr int kNumRaces = 3;
constexpr int kMaxCandidates = 16;
constexpr double kWarmUpMs = 120, kRunMs = 130;  // of a long run
constexpr double kTooSlow = 1.3;                 // of the race's best: no long run
constexpr double kThresholds[] = {1.0, 0.99, 0.98, 0.97, 0.96, 0.95};
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

struct Long {
  double first = 0, second = 0;
  double mean() const { return (first + second) / 2; }
};

// One product's algorithms on this device.
class AlgorithmComparison {
 public:
  AlgorithmComparison(cublasLtHandle_t handle, const Product& product,
                      const GemmWorkspace& workspace)
      : handle_(handle), call_(product.call), workspace_(workspace), descriptors_(product.call) {
    candidates_ = descriptors_.candidates(handle, workspace.bytes, kMaxCandidates);
    for (int i = 0; i < kNumRaces; ++i) {
      race_ = time_algorithms(handle_, descriptors_, call_, candidates_, workspace_);
      picks_.push_back(race_.best);
    }
    const double limit = kTooSlow * *std::ranges::min_element(race_.microseconds);
    for (const bool again : {false, true}) {
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (race_.microseconds[i] > limit && i > 0) continue;
        (again ? long_[i].second : long_[i].first) = run_long(i);
      }
    }
  }

  double first() const { return long_.at(0).mean(); }
  double best() const {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [number, times] : long_) best = std::min(best, times.mean());
    return best;
  }
  double picked() const {
    double sum = 0;
    for (const std::size_t pick : picks_) sum += long_.at(pick).mean();
    return sum / kNumRaces;
  }
  // Where the race's best is taken only if it is faster than the first by this ratio.
  double chosen(double threshold) const {
    const auto fastest = std::ranges::min_element(race_.microseconds);
    const auto number = static_cast<std::size_t>(fastest - race_.microseconds.begin());
    return long_.at(*fastest < threshold * race_.microseconds[0] ? number : 0).mean();
  }
  void print(const std::string& name) const {
    fmt::print("{} {}: first {:.0f}, raced {:.0f}, best {:.0f} |", name, call_.text(), first(),
               picked(), best());
    for (const auto& [number, times] : long_) {
      fmt::print(" {}: {:.0f} {:.0f} {:.0f}", number, race_.microseconds[number], times.first,
                 times.second);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  // How often it ran.
  int run(std::size_t candidate, double milliseconds) {
    const int count = std::max(1, static_cast<int>(milliseconds * 1e3 / race_.microseconds[0]));
    for (int i = 0; i < count; ++i) {
      check_cublas(descriptors_.run(handle_, call_, candidates_[candidate], workspace_), "race");
    }
    return count;
  }
  double run_long(std::size_t candidate) {
    CudaEvent begin(/*timing=*/true);
    CudaEvent end(/*timing=*/true);
    run(candidate, kWarmUpMs);
    PACKTRAIN_CUDA_CHECK(cudaEventRecord(begin.get(), workspace_.stream));
    const int num_runs = run(candidate, kRunMs);
    PACKTRAIN_CUDA_CHECK(cudaEventRecord(end.get(), workspace_.stream));
    end.synchronize();
    float milliseconds = 0;
    PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    return static_cast<double>(milliseconds) * 1e3 / num_runs;
  }

  cublasLtHandle_t handle_;
  const GemmCall& call_;
  const GemmWorkspace& workspace_;
  GemmDescriptors descriptors_;
  std::vector<cublasLtMatmulAlgo_t> candidates_;
  AlgorithmTimes race_;  // the last
  std::vector<std::size_t> picks_;
  std::map<std::size_t, Long> long_;  // by candidate
};

int run_program(int argc, char** argv) {
  LayerShape shape;
  CLI::App app("Algorithms of a layer's products: short races against long runs.");
  app.add_option("--tokens", shape.tokens);
  app.add_option("--hidden", shape.hidden);
  app.add_option("--qkv", shape.qkv, "columns of queries, keys and values together");
  app.add_option("--mlp", shape.mlp);
  CLI11_PARSE(app, argc, argv);
  const at::NoGradGuard no_grad;
  cublasLtHandle_t handle = nullptr;  // ends with the process
  check_cublas(cublasLtCreate(&handle), "cublasLtCreate");
  const at::Tensor space =
      at::empty({kWorkspaceBytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  const GemmWorkspace workspace{space.data_ptr(), static_cast<std::size_t>(kWorkspaceBytes),
                                c10::cuda::getCurrentCUDAStream().stream()};
  double first = 0, picked = 0, best = 0;
  std::map<double, double, std::greater<>> chosen;
  for (const Product& product : layer_products(shape)) {
    const AlgorithmComparison contest(handle, product, workspace);
    contest.print(product.name);
    first += contest.first();
    picked += contest.picked();
    best += contest.best();
    for (const double threshold : kThresholds) chosen[threshold] += contest.chosen(threshold);
  }
  fmt::print("layer: first {:.0f}, raced {:.0f}, best {:.0f}; by threshold", first, picked, best);
  for (const auto& [threshold, sum] : chosen) fmt::print(" {}: {:.0f}", threshold, sum);
  fmt::print("\n");
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("matmul_race", packtrain::run_program, argc, argv);
}
