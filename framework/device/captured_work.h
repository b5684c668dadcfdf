// Work that was given to a stream once and is repeated as one piece: a CUDA graph. What it launches
// then has no gaps between its kernels, and costs the host one call.
#pragma once

#include <functional>
#include <memory>

#include "framework/device/device.h"

namespace packtrain {

class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void replay() = 0;  // on the current stream: the same addresses, what is there now
};

// Records what `work` launches on `stream`, which does not run. It must not wait for the device nor
// touch other streams. Tensors it makes lie in memory that all captures of the process share: only
// one of them may run at a time, and what must outlast the run has to be held on to.
// Null on the CPU, where `work` is not called.
std::unique_ptr<CapturedWork> capture(Stream& stream, const std::function<void()>& work);

}  // namespace packtrain
