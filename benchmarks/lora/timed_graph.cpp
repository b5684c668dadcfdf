#include "benchmarks/lora/timed_graph.h"

#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_stream.h"

namespace packtrain {
namespace {

double replays_us(at::cuda::CUDAGraph& graph, int count) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  CudaEvent begin(/*timing=*/true);
  CudaEvent end(/*timing=*/true);
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(begin.get(), stream));
  for (int i = 0; i < count; ++i) graph.replay();
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(end.get(), stream));
  end.synchronize();
  float milliseconds = 0;
  PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return static_cast<double>(milliseconds) * 1e3 / count;
}

}  // namespace

TimedGraph::TimedGraph(const std::function<void()>& work) {
  work();
  PACKTRAIN_CUDA_CHECK(cudaDeviceSynchronize());
  graph_->capture_begin();
  work();
  graph_->capture_end();
  replays_us(*graph_, 1);
  about_us_ = replays_us(*graph_, 2);
}

double TimedGraph::replay_us(double milliseconds) {
  about_us_ = replays_us(*graph_, std::max(1, static_cast<int>(milliseconds * 1e3 / about_us_)));
  return about_us_;
}

std::vector<double> replay_in_turns(std::vector<TimedGraph>& graphs, const Turns& turns) {
  std::vector<std::vector<double>> samples(graphs.size());
  for (int round = 0; round <= turns.rounds; ++round) {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      const double us = graphs[i].replay_us(turns.milliseconds);
      if (round > 0) samples[i].push_back(us);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& times : samples) {
    std::ranges::sort(times);
    medians.push_back((times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2);
  }
  return medians;
}

}  // namespace packtrain
