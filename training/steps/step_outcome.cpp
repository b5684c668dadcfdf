#include "training/steps/step_outcome.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cmath>
#include <cstring>

namespace packtrain {

RequestCounts StepRequests::counts() const {
  const auto count = [](bool asked) { return asked ? 1.0F : 0.0F; };
  return {.stop = count(stop), .save = count(save), .out_of_memory = count(out_of_memory)};
}

StepOutcome::StepOutcome(Device& device, std::int64_t num_details)
    : memory_(device.allocate_host((kNumReported + num_details) * sizeof(float))),
      host_(at::from_blob(memory_.data, {kNumReported + num_details}, at::kFloat)),
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
  StepReport report;
  std::memcpy(static_cast<void*>(&report), values, sizeof report);
  const RequestCounts& requests = report.requests;
  return {.loss = report.loss,
          .grad_norm = report.norm,
          .applied = report.skipped == 0.0F,
          .requests = {.stop = requests.stop > 0,
                       .save = requests.save > 0,
                       .out_of_memory = requests.out_of_memory > 0},
          .num_ranks_out_of_memory = std::lround(requests.out_of_memory),
          .details = std::vector<double>(values + kNumReported, values + host_.numel())};
}

}  // namespace packtrain
