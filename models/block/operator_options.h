// Choices of operators that hold for a run of a model, not for one block. The model owns them, so
// two models of a process may differ.
#pragma once

#include <chrono>
#include <cstdint>

namespace packtrain {

// How GEMMs choose their CUDA algorithms (models/ops/matmul/algorithm_cache.h).
struct GemmTiming {
  // True times the candidates on first use. False uses cuBLASLt's heuristic alone, so that two runs
  // make the same choices and have equal bits.
  bool enabled = true;
  // Timing takes at most this fraction of the time since `since`; 1 means no limit. A GEMM that may
  // not be timed yet uses the choice for the nearest number of tokens. Without one it uses the
  // heuristic's first.
  double share = 1;
  std::chrono::steady_clock::time_point since = {};
  double seconds_before = 0;  // that the process spent on timing before `since`
};

struct OperatorOptions {
  // Attention that compiles a plan for a size compiles it for at least this number of rows. One
  // plan then serves all batches, at no cost in time.
  std::int64_t min_planned_rows = 0;
  std::int64_t min_planned_keys = 0;  // the same for the keys of batches with prefixes
  GemmTiming gemm_timing = {};
  // Micro-batches of all sizes recompute what the largest does (recompute_by_rows.h).
  bool recomputes_as_largest = false;
};

}  // namespace packtrain
