// Copies a packed batch to the device.
#pragma once

#include "collators/packed_batch.h"
#include "framework/device/device.h"
#include "models/block/batch.h"

namespace packtrain {

// Copies the batch's one buffer to `device` in one transfer on the current stream, and makes views
// of it. The copy is asynchronous from pinned memory: `batch` must live until it is complete. On
// the CPU the views use the buffer itself: `batch` must outlive the result.
DeviceBatch upload(const PackedBatch& batch, const Device& device);

}  // namespace packtrain
