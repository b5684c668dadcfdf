// What a GPU executes, recorded by CUPTI.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "framework/device/activity_recorder.h"
#include "framework/device/device.h"

namespace packtrain {

using StreamKinds = std::map<cudaStream_t, StreamKind>;  // other streams' rows are "stream NUMBER"

// Records from now on. Throws Error(kDevice) when CUPTI cannot.
std::unique_ptr<ActivityRecorder> record_cuda_activities(const StreamKinds& streams);

}  // namespace packtrain
