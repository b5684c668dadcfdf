#include "launch/doctor/host_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <memory>

#include "framework/device/tensor_device.h"

namespace packtrain {
namespace {

constexpr int kCopySamples = 5;
constexpr std::size_t kCopyBytes = std::size_t{256} << 20U;

// A buffer in host memory, one on the device, and a stream that copies between them.
class HostCopy {
 public:
  HostCopy(Device& device, std::size_t bytes, bool to_device)
      : memory_(device.allocate_host(bytes)), stream_(device.make_stream(StreamKind::kCopy)) {
    const auto numel = static_cast<std::int64_t>(bytes);
    const at::Tensor on_host = at::from_blob(memory_.data, {numel}, at::kByte).zero_();
    const at::Tensor on_device =
        at::empty({numel}, at::TensorOptions(at::kByte).device(tensor_device(device)));
    from_ = to_device ? on_host : on_device;
    to_ = to_device ? on_device : on_host;
  }

  void start() {
    stream_->run([from = from_, to = to_](StreamHandle) {
      const at::NoGradGuard no_grad;
      to.copy_(from, /*non_blocking=*/true);
    });
  }
  void wait() { stream_->synchronize(); }

 private:
  HostBuffer memory_;
  std::unique_ptr<Stream> stream_;
  at::Tensor from_;
  at::Tensor to_;
};

// Seconds until all copies are done: the fastest of several after one warm-up.
double fastest_copy_s(std::initializer_list<HostCopy*> copies) {
  double least = INFINITY;
  for (int sample = 0; sample <= kCopySamples; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    for (HostCopy* copy : copies) copy->start();
    for (HostCopy* copy : copies) copy->wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (sample > 0) least = std::min(least, taken.count());
  }
  return least;
}

}  // namespace

HostCopyRates measure_host_copies(Device& device, std::size_t bytes) {
  HostCopy to_device(device, bytes, /*to_device=*/true);
  HostCopy to_host(device, bytes, /*to_device=*/false);
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  return {gigabytes / fastest_copy_s({&to_device}), gigabytes / fastest_copy_s({&to_host}),
          gigabytes / fastest_copy_s({&to_device, &to_host})};
}

void probe_host_copies(const RunDevice& device, World& world, Facts& facts) {
  if (device.device->kind() != DeviceKind::kCuda) return;
  world.control().barrier();
  const HostCopyRates rates = measure_host_copies(*device.device, kCopyBytes);
  facts["to_device_gb_s"] = rates.to_device_gb_s;
  facts["to_host_gb_s"] = rates.to_host_gb_s;
  facts["both_ways_gb_s"] = rates.both_gb_s;
}

}  // namespace packtrain
