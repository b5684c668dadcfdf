#include "launch/doctor/speeds.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/hash.h"
#include "framework/device/tensor_device.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSamples = 5;
constexpr int kCpuProducts = 200;  // short, so that some run undisturbed on a busy machine
constexpr auto kInjectedDelay = std::chrono::milliseconds(20);  // of each sample
constexpr int kNumSummands = 251;  // a prime: no regular group of ranks has equal summands
constexpr std::size_t kGpuBytes = std::size_t{256} << 20U;
constexpr std::size_t kCpuBytes = std::size_t{4} << 20U;

bool is_gpu(const RunDevice& device) {
  return device.device->kind() == DeviceKind::kCuda;
}

at::TensorOptions options_on(const RunDevice& device, at::ScalarType type) {
  return at::TensorOptions(type).device(is_gpu(device) ? at::kCUDA : at::kCPU);
}

// Seconds of `work` on the stream: the fastest of several after one warm-up.
double fastest_s(Stream& stream, const std::function<void(StreamHandle)>& work,
                 int num_samples = kSamples) {
  stream.run(work);
  stream.synchronize();
  double least = INFINITY;
  for (int k = 0; k < num_samples; ++k) {
    const auto begin = Clock::now();
    stream.run(work);
    stream.synchronize();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return least;
}

// Communication memory as float32.
at::Tensor as_floats(const CommunicatorMemory& memory, const RunDevice& device) {
  return at::from_blob(memory.data, {static_cast<std::int64_t>(memory.size / sizeof(float))},
                       options_on(device, at::kFloat));
}

class Collectives {
 public:
  // `bytes` of the whole buffer; it must be a multiple of every group's size.
  Collectives(Communicator& communicator, const RunDevice& device, std::size_t bytes)
      : communicator_(communicator),
        stream_(device.device->make_stream(StreamKind::kCompute)),
        count_(bytes / sizeof(float) / static_cast<std::size_t>(communicator.size()) / 64 * 64),
        memory_(communicator.allocate(count_ * sizeof(float) *
                                      static_cast<std::size_t>(communicator.size()))),
        floats_(as_floats(memory_, device)) {}

  // Bus rate in GB/s.
  double gather() {
    float* const all = floats_.data_ptr<float>();
    float* const part = all + count_ * static_cast<std::size_t>(communicator_.rank());
    return rate(1, fastest_s(*stream_, [&](StreamHandle stream) {
                  communicator_.all_gather(part, all, count_, DataType::kFloat32, stream);
                }));
  }

  double reduce() {
    float* const all = floats_.data_ptr<float>();
    const std::size_t count = count_ * static_cast<std::size_t>(communicator_.size());
    return rate(2, fastest_s(*stream_, [&](StreamHandle stream) {
                  communicator_.all_reduce(all, count, DataType::kFloat32, ReduceOp::kSum, stream);
                }));
  }

  // Returns "" when every rank's part arrives and sums are right.
  std::string check() {
    const int size = communicator_.size();
    const auto count = static_cast<std::int64_t>(count_);
    stream_->run([&](StreamHandle) {
      floats_.zero_();
      floats_.narrow(0, communicator_.rank() * count, count).fill_(communicator_.rank() + 1.0F);
    });
    gather();
    for (int rank = 0; rank < size; ++rank) {
      const at::Tensor part = floats_.narrow(0, rank * count, count);
      const double low = part.min().item<double>();
      const double high = part.max().item<double>();
      if (low != rank + 1 || high != rank + 1) {
        return fmt::format("an all-gather brought {} to {} of rank {}, not {}", low, high, rank,
                           rank + 1);
      }
    }
    stream_->run([&](StreamHandle stream) {
      floats_.fill_(summand_of(communicator_.rank()));
      communicator_.all_reduce(floats_.data_ptr<float>(), static_cast<std::size_t>(floats_.numel()),
                               DataType::kFloat32, ReduceOp::kSum, stream);
    });
    stream_->synchronize();
    const double wanted = sum_of_summands(size);
    const double low = floats_.min().item<double>();
    const double high = floats_.max().item<double>();
    if (low == wanted && high == wanted) return "";
    return fmt::format("an all-reduce summed to {} to {}, not {}", low, high, wanted);
  }

 private:
  double rate(double times, double seconds) const {
    const double size = communicator_.size();
    return times * (size - 1) / size * static_cast<double>(memory_.size) / seconds / 1e9;
  }

  Communicator& communicator_;
  std::unique_ptr<Stream> stream_;
  std::size_t count_;  // of a rank's part
  CommunicatorMemory memory_;
  at::Tensor floats_;
};

// The first rank of the host: the same number for all of its ranks.
int host_color(World& world) {
  const Digest mine = digest_bytes(std::as_bytes(std::span(world.host())));
  std::vector<Digest> all(static_cast<std::size_t>(world.size()));
  world.control().all_gather(&mine, all.data(), sizeof mine, DataType::kUInt8, nullptr);
  return static_cast<int>(std::ranges::find(all, mine) - all.begin());
}

}  // namespace

float summand_of(int rank) {
  return static_cast<float>(rank % kNumSummands + 1);
}

double sum_of_summands(int num_ranks) {
  const int num_whole = num_ranks / kNumSummands;
  const int num_left = num_ranks % kNumSummands;
  return num_whole * (kNumSummands * (kNumSummands + 1) / 2.0) + num_left * (num_left + 1) / 2.0;
}

namespace {

// TFLOP/s of products of e4m3, as the forward of precision.linear: fp8_tensor has.
double fp8_tflops(const RunDevice& device, Stream& stream, std::int64_t n, int repeats) {
  at::Tensor out;
  Fp8Operand left;
  Fp8Operand right;
  stream.run([&](StreamHandle) {
    const at::Tensor values = at::randn({n, n}, options_on(device, at::kBFloat16));
    out = at::empty_like(values);
    for (Fp8Operand* operand : {&left, &right}) {
      operand->scale = make_fp8_scale(values);
      operand->codes = fp8_cast(values, operand->scale, {.rows = true}).rows;
    }
  });
  const double seconds = fastest_s(stream, [&](StreamHandle) {
    for (int k = 0; k < repeats; ++k) {
      fp8_gemm_out(out, left, right, {}, {.fast_accumulation = true}, {});
    }
  });
  return 2.0 * static_cast<double>(n * n * n) * repeats / seconds / 1e12;
}

}  // namespace

void probe_products(const RunDevice& device, const InjectedFault& trouble, World& world,
                    Facts& facts) {
  const std::int64_t n = is_gpu(device) ? 8192 : 256;
  const int repeats = is_gpu(device) ? 20 : 1;
  const auto options = options_on(device, is_gpu(device) ? at::kBFloat16 : at::kFloat);
  const bool is_slow = trouble.is("products", world);
  const auto stream = device.device->make_stream(StreamKind::kCompute);
  at::Tensor a;
  at::Tensor b;
  at::Tensor c;
  stream->run([&](StreamHandle) {
    a = at::randn({n, n}, options);
    b = at::randn({n, n}, options);
    c = at::empty({n, n}, options);
  });
  world.control().barrier();  // all at the same time: GPUs of a host share power and cooling
  const double seconds = fastest_s(
      *stream,
      [&](StreamHandle) {
        for (int k = 0; k < repeats; ++k) at::mm_out(c, a, b);
        if (is_slow) std::this_thread::sleep_for(kInjectedDelay);
      },
      is_gpu(device) ? kSamples : kCpuProducts);
  facts["gemm_tflops"] = 2.0 * static_cast<double>(n * n * n) * repeats / seconds / 1e12;
  world.control().barrier();
  if (!has_fp8_products(tensor_device(*device.device))) return;
  facts["fp8_gemm_tflops"] = fp8_tflops(device, *stream, n, repeats);
}

void probe_collectives(const RunDevice& device, World& world, Facts& facts) {
  if (world.size() == 1) return;  // without other ranks there is nothing to measure
  const std::size_t bytes = is_gpu(device) ? kGpuBytes : kCpuBytes;
  const auto all = world.connect(device.backend);
  {
    Collectives collectives(*all, device, bytes);
    facts["wrong_collective"] = collectives.check();
    facts["gather_gb_s"] = collectives.gather();
    facts["reduce_gb_s"] = collectives.reduce();
  }
  const auto host = all->split(host_color(world), world.rank());
  facts["host_gather_gb_s"] = Collectives(*host, device, bytes).gather();
}

}  // namespace packtrain
