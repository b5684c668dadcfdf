#include "benchmarks/communication/collective_benchmark.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/math.h"

namespace packtrain {
namespace {

constexpr int kNumSamples = 5;
constexpr int kNumProducts = 12;       // one sample of the products' slow-down: about 15 ms
constexpr double kCollectivesMs = 12;  // one sample of the collective during products
constexpr double kOutlasts = 2.5;      // the concurrent work runs this many times longer

c10::Stream new_stream(bool high_priority) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard.getStreamFromGlobalPool(guard.getDevice(), high_priority);
}

c10::Event timing_event() {
  return c10::Event(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
}

int times(double whole, double part) {
  return std::max(1, static_cast<int>(std::ceil(whole / part)));
}

}  // namespace

CollectiveBenchmark::CollectiveBenchmark(World& world)
    : world_(world), compute_(new_stream(false)), communication_(new_stream(true)) {
  constexpr std::int64_t kRows = 8192;
  constexpr std::int64_t kInner = 4096;
  constexpr std::int64_t kColumns = 14336;
  const auto options = at::TensorOptions(at::kBFloat16).device(communication_.device());
  a_ = at::randn({kRows, kInner}, options);
  b_ = at::randn({kInner, kColumns}, options);
  c_ = at::mm(a_, b_);
  std::vector<double> samples;
  for (int s = 0; s < kNumSamples; ++s) {
    samples.push_back(together([](void*) {}, kNumProducts, 0).product_ms);
  }
  product_ms_ = agreed(upper_median(samples));
}

// The number of collectives follows from times, so all ranks must use the same.
double CollectiveBenchmark::agreed(double value) {
  world_.control().broadcast(&value, sizeof value, 0, nullptr);
  return value;
}

void CollectiveBenchmark::multiply() {
  const c10::StreamGuard guard(compute_);
  at::mm_out(c_, a_, b_);
}

CollectiveBenchmark::Times CollectiveBenchmark::together(const Collective& collective,
                                                         int num_products, int num_collectives) {
  const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
  void* stream = device.getStreamNativeHandle(communication_);
  multiply();
  compute_.synchronize();
  communication_.synchronize();
  world_.control().barrier();
  auto begin = timing_event();
  auto products_end = timing_event();
  auto collectives_end = timing_event();
  multiply();  // gives the host time to enqueue more work
  begin.record(compute_);
  begin.block(communication_);
  const int steps = std::max(num_products, 1);
  int launched = 0;
  for (int step = 0; step < steps; ++step) {
    if (step < num_products) multiply();
    for (; launched < num_collectives * (step + 1) / steps; ++launched) collective(stream);
  }
  products_end.record(compute_);
  collectives_end.record(communication_);
  products_end.synchronize();
  collectives_end.synchronize();
  return {begin.elapsedTime(products_end) / std::max(num_products, 1),
          begin.elapsedTime(collectives_end) / std::max(num_collectives, 1)};
}

double CollectiveBenchmark::isolated_ms(const Collective& collective) {
  constexpr double kSampleMs = 4;
  const double first = agreed(together(collective, 0, 3).collective_ms);
  std::vector<double> samples;
  for (int s = 0; s < kNumSamples; ++s) {
    samples.push_back(together(collective, 0, times(kSampleMs, first)).collective_ms);
  }
  return agreed(upper_median(samples));
}

CollectiveTiming CollectiveBenchmark::run(const Collective& collective) {
  CollectiveTiming result;
  result.isolated_ms = isolated_ms(collective);
  std::vector<double> undisturbed;
  std::vector<double> products;
  std::vector<double> collectives;
  const int many_collectives =
      times(kOutlasts * kNumProducts * product_ms_, std::max(result.isolated_ms, 0.05));
  const int some_collectives = times(kCollectivesMs, result.isolated_ms);
  const int many_products = times(kOutlasts * some_collectives * result.isolated_ms, product_ms_);
  for (int s = 0; s < kNumSamples; ++s) {
    undisturbed.push_back(together(collective, kNumProducts, 0).product_ms);
    products.push_back(together(collective, kNumProducts, many_collectives).product_ms);
    collectives.push_back(together(collective, many_products, some_collectives).collective_ms);
  }
  result.slow_down = agreed(upper_median(products) / upper_median(undisturbed));
  result.overlapped_ms = agreed(upper_median(collectives));
  return result;
}

}  // namespace packtrain
