// Steps with AdamW in line, and with a part of it in parallel with the forward: update_overlap
// --help.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <deque>
#include <vector>

#include "benchmarks/guarded_main.h"
#include "benchmarks/update_overlap/products.h"
#include "benchmarks/update_overlap/update.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_stream.h"

namespace packtrain {
namespace {

constexpr int kWarmUpSteps = 3;
constexpr int kSteps = 9;
constexpr int kRounds = 2;
constexpr int kQuarters = 4;

struct Shape {
  std::int64_t tokens = 4096, hidden = 2048, mlp = 8192, qkv = 3072, vocab = 128256;
  int layers = 16;
  std::int64_t rest = 262;  // million parameters outside of the layers

  std::int64_t layer_numel() const { return hidden * (qkv + hidden + 3 * mlp); }
  std::int64_t rest_numel() const { return rest * 1'000'000; }
  std::int64_t numel() const { return layer_numel() * layers + rest_numel(); }
};

// Layers that are updated in line. The others are updated on `num_few` multiprocessors.
struct Way {
  int num_few = 0;
  int layers_in_line = 0;
};

class Step {
 public:
  Step(const Shape& shape, int num_multiprocessors)
      : shape_(shape),
        num_multiprocessors_(num_multiprocessors),
        products_(shape.vocab * std::max(shape.hidden, shape.tokens)),
        compute_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)),
        update_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false)) {
    const auto options = at::TensorOptions(at::kCUDA).dtype(at::kFloat);
    for (const auto dtype : {at::kBFloat16, at::kFloat, at::kFloat, at::kFloat, at::kBFloat16}) {
      memory_.push_back(at::zeros({shape.numel()}, options.dtype(dtype)));
    }
    whole_ = {memory_[0].data_ptr(),        memory_[1].data_ptr<float>(),
              memory_[2].data_ptr<float>(), memory_[3].data_ptr<float>(),
              memory_[4].data_ptr(),        shape.numel()};
    for (int i = 0; i <= shape.layers; ++i) events_.emplace_back();
    PACKTRAIN_CUDA_CHECK(cudaDeviceSynchronize());
  }

  // Median milliseconds of a step.
  double time(const Way& way) {
    std::vector<double> milliseconds;
    for (int i = 0; i < kWarmUpSteps + kSteps; ++i) {
      CudaEvent begin(/*timing=*/true);
      CudaEvent end(/*timing=*/true);
      PACKTRAIN_CUDA_CHECK(cudaEventRecord(begin.get(), compute_.stream()));
      run(way);
      PACKTRAIN_CUDA_CHECK(cudaEventRecord(end.get(), compute_.stream()));
      end.synchronize();
      float elapsed = 0;
      PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&elapsed, begin.get(), end.get()));
      if (i >= kWarmUpSteps) milliseconds.push_back(elapsed);
    }
    std::ranges::sort(milliseconds);
    return milliseconds[milliseconds.size() / 2];
  }

 private:
  void run(const Way& way) {
    update_on_all(whole_.part(shape_.layer_numel() * shape_.layers, shape_.rest_numel()),
                  compute_.stream());
    for (int i = 0; i < way.layers_in_line; ++i) update_on_all(layer(i), compute_.stream());
    if (way.layers_in_line < shape_.layers) update_in_parallel(way);
    for (int i = 0; i < shape_.layers; ++i) {
      if (i >= way.layers_in_line) wait(compute_, events_[i]);
      each_linear([&](std::int64_t outputs, std::int64_t inputs) {
        product(ProductKind::kForward, outputs, inputs, way.num_few);
      });
    }
    product(ProductKind::kForward, shape_.vocab, shape_.hidden);
    backward_of(shape_.vocab, shape_.hidden);
    for (int i = 0; i < shape_.layers; ++i) {
      each_linear([&](std::int64_t outputs, std::int64_t inputs) { backward_of(outputs, inputs); });
    }
  }

  void update_in_parallel(const Way& way) {
    CudaEvent& begin = events_.back();
    PACKTRAIN_CUDA_CHECK(cudaEventRecord(begin.get(), compute_.stream()));
    wait(update_, begin);
    for (int i = way.layers_in_line; i < shape_.layers; ++i) {
      update_on_few(layer(i), way.num_few, update_.stream());
      PACKTRAIN_CUDA_CHECK(cudaEventRecord(events_[i].get(), update_.stream()));
    }
  }

  template <typename Function>
  void each_linear(const Function& function) const {
    function(shape_.qkv, shape_.hidden);
    function(shape_.hidden, shape_.hidden);
    function(2 * shape_.mlp, shape_.hidden);
    function(shape_.hidden, shape_.mlp);
  }
  void backward_of(std::int64_t outputs, std::int64_t inputs) {
    product(ProductKind::kInputGradient, outputs, inputs);
    product(ProductKind::kWeightGradient, outputs, inputs);
  }
  void product(ProductKind kind, std::int64_t outputs, std::int64_t inputs, int num_few = 0) {
    products_.run(
        {kind, shape_.tokens, inputs, outputs, num_few > 0 ? num_multiprocessors_ - num_few : 0},
        compute_.stream());
  }
  UpdatedRange layer(int number) const {
    return whole_.part(shape_.layer_numel() * number, shape_.layer_numel());
  }
  static void wait(const c10::cuda::CUDAStream& stream, const CudaEvent& event) {
    PACKTRAIN_CUDA_CHECK(cudaStreamWaitEvent(stream.stream(), event.get(), 0));
  }

  Shape shape_;
  int num_multiprocessors_;
  Products products_;
  c10::cuda::CUDAStream compute_;
  c10::cuda::CUDAStream update_;
  std::vector<at::Tensor> memory_;
  UpdatedRange whole_;
  std::deque<CudaEvent> events_;  // [layers] its update is done; the last: the parallel part begins
};

int run_program(int argc, char** argv) {
  CLI::App app("Times AdamW in line and in parallel with the next forward.");
  Shape shape;
  app.add_option("--tokens", shape.tokens);
  app.add_option("--hidden", shape.hidden);
  app.add_option("--mlp", shape.mlp);
  app.add_option("--qkv", shape.qkv, "columns of queries, keys and values together");
  app.add_option("--vocab", shape.vocab);
  app.add_option("--layers", shape.layers);
  app.add_option("--rest", shape.rest, "million parameters outside of the layers");
  CLI11_PARSE(app, argc, argv);
  const at::NoGradGuard no_grad;
  cudaDeviceProp device;
  PACKTRAIN_CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  Step step(shape, device.multiProcessorCount);
  fmt::print("{}, {} multiprocessors\n", device.name, device.multiProcessorCount);
  for (int round = 0; round < kRounds; ++round) {
    fmt::print("in line: {:.2f} ms\n", step.time({0, shape.layers}));
    for (const int few : {8, 16, 24, 32}) {
      for (int quarter = 1; quarter < kQuarters; ++quarter) {
        const int in_line = shape.layers * quarter / kQuarters;
        fmt::print("{} of {} layers in line, the others on {} multiprocessors: {:.2f} ms\n",
                   in_line, shape.layers, few, step.time({few, in_line}));
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("update_overlap", packtrain::run_program, argc, argv);
}
