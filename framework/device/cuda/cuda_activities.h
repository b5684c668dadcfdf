// Records the activities of a GPU with CUPTI.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "framework/device/activity_recorder.h"
#include "framework/device/device.h"

namespace packtrain {

// rows of other streams are "stream NUMBER"
using StreamKinds = std::map<cudaStream_t, StreamKind>;

// Starts recording. Throws Error(kDevice) when CUPTI fails.
std::unique_ptr<ActivityRecorder> record_cuda_activities(const StreamKinds& streams);

}  // namespace packtrain
