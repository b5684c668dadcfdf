#include "benchmarks/ops/timer.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

namespace packtrain {
namespace {

constexpr double kRotatedBytes = 256.0 * (1 << 20);  // L2: 50 MB on H200, 126 MB on B200
constexpr std::int64_t kCopiedBytes = std::int64_t{1} << 30;
constexpr int kNumWarmUps = 3;
constexpr int kNumSamples = 15;
constexpr double kSampleUs = 2000;
constexpr int kMaxRotated = 16;

c10::Stream current_gpu_stream() {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard.getStream(c10::Device(c10::DeviceType::CUDA, 0));
}

Timing summarize(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto at = [&](double share) {
    return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.5), (at(0.9) - at(0.1)) / 2 / at(0.5)};
}

}  // namespace

Timer::Timer() : stream_(current_gpu_stream()) {
  const auto options = at::TensorOptions(at::kByte).device(at::kCUDA, 0);
  copied_ = at::empty({kCopiedBytes}, options).fill_(1);
  copy_ = at::empty({kCopiedBytes}, options);
}

double Timer::sample_us(Rotation& rotation) {
  c10::Event begin(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  copy_.copy_(copied_);  // the host runs ahead meanwhile; leaves nothing useful in L2
  begin.record(stream_);
  for (int i = 0; i < rotation.calls_per_sample; ++i) {
    rotation.calls[rotation.next]();
    rotation.next = (rotation.next + 1) % rotation.calls.size();
  }
  end.record(stream_);
  end.synchronize();
  constexpr double kUsPerMs = 1000;
  return begin.elapsedTime(end) * kUsPerMs / rotation.calls_per_sample;
}

std::vector<Timing> Timer::time(const std::vector<MakeCall>& operators, double bytes_per_call) {
  const double wanted = bytes_per_call > 0 ? std::ceil(kRotatedBytes / bytes_per_call) : 1;
  const int num_rotated = std::clamp(static_cast<int>(wanted), 1, kMaxRotated);
  std::vector<Rotation> rotations(operators.size());
  for (std::size_t i = 0; i < operators.size(); ++i) {
    for (int copy = 0; copy < num_rotated; ++copy) rotations[i].calls.push_back(operators[i]());
    rotations[i].calls_per_sample = num_rotated;
    double us = 0;
    for (int round = 0; round < kNumWarmUps; ++round) us = sample_us(rotations[i]);
    rotations[i].calls_per_sample = std::max(1, static_cast<int>(kSampleUs / us));
  }
  std::vector<std::vector<double>> samples(operators.size());
  for (int sample = 0; sample < kNumSamples; ++sample) {
    for (std::size_t i = 0; i < operators.size(); ++i) {
      samples[i].push_back(sample_us(rotations[i]));
    }
  }
  std::vector<Timing> timings;
  std::ranges::transform(samples, std::back_inserter(timings), summarize);
  return timings;
}

double Timer::copy_bandwidth() {
  const MakeCall make = [this] { return Call([this] { copy_.copy_(copied_); }); };
  const double us = time({make}, 2.0 * kCopiedBytes).front().median_us;
  return 2.0 * kCopiedBytes / us * 1e6;
}

}  // namespace packtrain
