// What a CUDA graph gives a training step on one GPU: step_graph --help.
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/equal.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "benchmarks/guarded_main.h"
#include "benchmarks/step_graph/decoder_step.h"
#include "benchmarks/step_graph/documents.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/device.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

constexpr int kNumWarmUps = 3;
constexpr int kNumSamples = 7;
constexpr double kSampleMs = 100;

// The shapes of configs/qwen2.5-0.5b-short.yaml and configs/llama-3.2-1b-short.yaml.
const std::map<std::string, const char*> kShapes = {
    {"qwen2.5-0.5b", R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
      "vocab_size": 151936, "max_position_embeddings": 32768, "rms_norm_eps": 1.0e-6,
      "rope_theta": 1000000.0, "tie_word_embeddings": true})"},
    {"llama-3.2-1b", R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
      "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1.0e-5,
      "rope_theta": 500000.0, "tie_word_embeddings": true})"},
};

using Step = std::function<void()>;

// Milliseconds a step, when `num_steps` are enqueued one after the other.
double sample_ms(const c10::cuda::CUDAStream& stream, const Step& step, int num_steps) {
  CudaEvent begin(/*timing=*/true);
  CudaEvent end(/*timing=*/true);
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(begin.get(), stream.stream()));
  for (int i = 0; i < num_steps; ++i) step();
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(end.get(), stream.stream()));
  end.synchronize();
  float milliseconds = 0;
  PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return static_cast<double>(milliseconds) / num_steps;
}

// Medians; the steps take turns, so that all see the same clocks.
std::vector<double> median_ms(const c10::cuda::CUDAStream& stream, const std::vector<Step>& steps) {
  std::vector<std::vector<double>> samples(steps.size());
  sample_ms(stream, steps.front(), 1);
  const double about_ms = sample_ms(stream, steps.front(), 1);
  const int num_steps = std::max(1, static_cast<int>(kSampleMs / about_ms));
  for (int sample = 0; sample < kNumSamples; ++sample) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      samples[i].push_back(sample_ms(stream, steps[i], num_steps));
    }
  }
  std::vector<double> medians;
  for (auto& times : samples) {
    std::ranges::nth_element(times, times.begin() + kNumSamples / 2);
    medians.push_back(times[kNumSamples / 2]);
  }
  return medians;
}

struct Result {
  at::Tensor loss;
  at::Tensor gradient;
};

// Bit for bit, or how far apart: attention's backward adds with atomics.
std::string difference(const Result& a, const Result& b) {
  if (at::equal(a.loss, b.loss) && at::equal(a.gradient, b.gradient)) return "equal bits";
  const at::Tensor apart = a.gradient.to(at::kFloat).sub(b.gradient);
  return fmt::format("loss {:+.1e}, gradient {:.1e} of its norm",
                     a.loss.item<double>() - b.loss.item<double>(),
                     apart.norm().item<double>() / a.gradient.to(at::kFloat).norm().item<double>());
}

// A graph of forward and backward. A replay reads the batch that `batch`'s memory has then.
class CapturedStep {
 public:
  CapturedStep(const DecoderStep& decoder, DeviceBatch& batch) {
    batch.state.forget_boundaries();  // they are read in the graph
    graph_.capture_begin();
    loss_ = decoder.forward_backward(batch);
    graph_.capture_end();
  }
  const at::Tensor& replay() {
    graph_.replay();
    return loss_;
  }

 private:
  at::cuda::CUDAGraph graph_;
  at::Tensor loss_;
};

void measure(const std::string& shape, DecoderStep& decoder, std::int64_t vocab_size,
             std::int64_t num_tokens, const c10::cuda::CUDAStream& stream) {
  std::vector<std::int32_t> lengths = document_lengths(num_tokens);
  DeviceBatch batch = pack_documents(lengths, vocab_size, 1);
  const auto run_eagerly = [&](DeviceBatch& which) {
    which.state.forget_boundaries();
    return decoder.forward_backward(which);
  };
  for (int i = 0; i < kNumWarmUps; ++i) run_eagerly(batch);
  const auto result = [&](at::Tensor loss) {
    return Result{loss.clone(), decoder.gradient().clone()};
  };
  const Result eager = result(run_eagerly(batch));
  const Result again = result(run_eagerly(batch));
  CapturedStep captured(decoder, batch);
  const Result replayed = result(captured.replay());
  const std::vector<double> ms =
      median_ms(stream, {[&] { run_eagerly(batch); }, [&] { captured.replay(); },
                         [&] { decoder.update(run_eagerly(batch)); },
                         [&] { decoder.update(captured.replay()); }});
  // The same graph, other documents and boundaries.
  std::ranges::rotate(lengths, lengths.begin() + 1);
  DeviceBatch other = pack_documents(lengths, vocab_size, 2);
  const Result other_eager = result(run_eagerly(other));
  overwrite(batch, other);
  const Result other_replayed = result(captured.replay());
  fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {} | {} | {} |\n",
             shape, num_tokens, ms[0], ms[1], ms[0] / ms[1], ms[2], ms[3], ms[2] / ms[3],
             difference(eager, again), difference(eager, replayed),
             difference(other_eager, other_replayed));
  std::fflush(stdout);
}

void run(const std::string& shape, const std::vector<std::int64_t>& sizes) {
  const DecoderConfig config = parse_decoder_config(kShapes.at(shape));
  const auto device = make_cuda_device(0, {});
  const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0);
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  const at::NoGradGuard no_grad;
  DecoderStep decoder(config);
  fmt::print(
      "| shape | tokens | eager ms | graph ms | ratio | with update, eager | graph | ratio | eager "
      "twice | replay | replay of other boundaries "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::int64_t num_tokens : sizes) {
    measure(shape, decoder, config.vocab_size, num_tokens, stream);
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
}

int run_program(int argc, char** argv) {
  std::string shape = "qwen2.5-0.5b";
  std::vector<std::int64_t> sizes = {1024, 2048, 4096, 16384};
  CLI::App app(
      "Times forward and backward of a decoder on one GPU, launched kernel by kernel and "
      "replayed as a CUDA graph, without and with norm and AdamW behind them.");
  app.add_option("--shape", shape, "qwen2.5-0.5b or llama-3.2-1b")
      ->check(CLI::IsMember({"qwen2.5-0.5b", "llama-3.2-1b"}));
  app.add_option("--tokens", sizes, "of a step, several with commas")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  run(shape, sizes);
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("step_graph", packtrain::run_program, argc, argv);
}
