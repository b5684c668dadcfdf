// Calls in a CUDA graph, replayed without a pause.
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <memory>
#include <vector>

namespace packtrain {

class TimedGraph {
 public:
  // Runs `work` once, so that algorithms are chosen, and captures it.
  explicit TimedGraph(const std::function<void()>& work);
  // Replays for about this long, and returns the microseconds of one replay.
  double replay_us(double milliseconds);

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_ = std::make_unique<at::cuda::CUDAGraph>();
  double about_us_ = 0;
};

struct Turns {
  double milliseconds = 25;  // of one graph's turn
  int rounds = 4;            // after one that warms up
};

// The median microseconds of a replay of each graph. They take turns.
std::vector<double> replay_in_turns(std::vector<TimedGraph>& graphs, const Turns& turns);

}  // namespace packtrain
