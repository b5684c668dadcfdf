// Work that was recorded from a stream once and is replayed with one host call: a CUDA graph. Its
// kernels follow each other without gaps.
#pragma once

#include <functional>
#include <memory>

#include "framework/device/device.h"

namespace packtrain {

class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // on the current stream, with the same addresses and their present contents
  virtual void replay() = 0;
};

// Records the work that `work` launches on `stream`, without running it. `work` must not wait for
// the device or use other streams. Its tensors are in memory that all captures of the process
// share. So only one capture may run at a time, and results that are needed later must be kept.
// Returns null on the CPU and does not call `work`.
std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& work);

}  // namespace packtrain
