// Settings of the section fault.
#pragma once

#include <cstdint>

namespace packtrain {

enum class FaultKind {
  kNone,
  kAbort,
  kHang,
  kSlow,
  kStop,
  kNanGradient,
  kOutOfMemory,
  kFlipBit,
  kSpin,
  kSkipCollective,
  kOtherCollective,
  kFailedCollective,
  kLostLink,
};
enum class FaultPhase { kLoad, kStep, kUpdate, kHessian, kSave, kShutdown };

// Injects one fault, for tests and to try out how a cluster handles it.
struct FaultSection {
  FaultKind kind = FaultKind::kNone;
  std::int64_t rank = 0;       // -1: every rank
  std::int64_t step = 1;       // counted from 1, as in the metrics
  std::int64_t num_steps = 1;  // slow: steps with the delay
  FaultPhase phase = FaultPhase::kStep;
  double seconds = 3;  // slow: length of each delay
  // out_of_memory: place in the step. -1: the last micro-batch or block.
  std::int64_t micro_batch = 0;
  std::int64_t block = 0;
  bool backward = false;
};

}  // namespace packtrain
