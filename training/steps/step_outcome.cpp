#include "training/steps/step_outcome.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cmath>
#include <cstring>
#include <utility>

namespace packtrain {

RequestCounts StepRequests::counts() const {
  const auto count = [](bool asked) { return asked ? 1.0F : 0.0F; };
  return {.stop = count(stop), .save = count(save), .out_of_memory = count(out_of_memory)};
}

namespace {

StepReport report_at(const float* values) {
  StepReport report;
  std::memcpy(static_cast<void*>(&report), values, sizeof report);
  return report;
}

std::int64_t num_numbers(std::int64_t num_details, std::int64_t num_adapters) {
  return kNumReported * (1 + num_adapters) + num_details;
}

}  // namespace

StepOutcome::StepOutcome(Device& device, std::int64_t num_details, std::int64_t num_adapters)
    : num_details_(num_details),
      memory_(device.allocate_host(num_numbers(num_details, num_adapters) * sizeof(float))),
      host_(at::from_blob(memory_.data, {num_numbers(num_details, num_adapters)}, at::kFloat)),
      arrived_(device.make_event()) {}

void StepOutcome::receive(const at::Tensor& report, Stream& compute) {
  compute.run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    host_.copy_(report, /*non_blocking=*/true);
  });
  compute.record(*arrived_);
}

StepOutcome::Values StepOutcome::read() {
  arrived_->synchronize();
  const float* values = host_.const_data_ptr<float>();
  const StepReport report = report_at(values);
  const RequestCounts& requests = report.requests;
  const std::int64_t begin = kNumReported + num_details_;  // of the adapters
  std::vector<AdapterValues> adapters;
  for (std::int64_t own = begin; own < host_.numel(); own += kNumReported) {
    const StepReport of_adapter = report_at(values + own);
    adapters.push_back({of_adapter.loss, of_adapter.norm, of_adapter.skipped == 0.0F});
  }
  return {.loss = report.loss,
          .grad_norm = report.norm,
          .applied = report.skipped == 0.0F,
          .requests = {.stop = requests.stop > 0,
                       .save = requests.save > 0,
                       .out_of_memory = requests.out_of_memory > 0},
          .num_ranks_out_of_memory = std::lround(requests.out_of_memory),
          .details = std::vector<double>(values + kNumReported, values + begin),
          .adapters = std::move(adapters)};
}

}  // namespace packtrain
