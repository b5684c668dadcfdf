// A packed batch's way to the device.
#pragma once

#include "collators/packed_batch.h"
#include "framework/device/device.h"
#include "models/batch.h"

namespace packtrain {

// Copies the batch's one buffer to `device` in one go, on the current stream (asynchronous from
// pinned memory: keep `batch` until that stream has passed), and makes views of it. On the CPU the
// views are of the buffer itself: keep `batch` as long as the result.
DeviceBatch upload(const PackedBatch& batch, const Device& device);

}  // namespace packtrain
