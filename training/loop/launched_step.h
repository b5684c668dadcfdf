// A step that was launched on the device and whose outcome has not been read yet.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "framework/device/device.h"
#include "training/steps/batch_source.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

struct LaunchedStep {
  PreparedStep prepared;
  double data_wait_s = 0;
  std::vector<double> learning_rates = {};  // of each adapter, or one
  StepOutcome* outcome = nullptr;
  at::Tensor loss = {};                             // of this rank
  at::Tensor details = {};                          // sums of StepDetails over this rank's batches
  HostBuffer row_losses = {};                       // for the example loss log
  WaitedTime waited = {};                           // for communication
  std::optional<StepOutcome::Values> hessian = {};  // of its Hessian batches, when it was read
};

}  // namespace packtrain
