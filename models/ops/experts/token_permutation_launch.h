#pragma once

#include <cstdint>

namespace packtrain {

// Assignments of one warp.
constexpr std::int64_t kAssignmentsPerWarp = 512;

struct TokenPermutationArguments {
  const std::int32_t* experts = nullptr;  // [num_assignments]
  std::int32_t* starts = nullptr;  // workspace [num_experts, segments of kAssignmentsPerWarp]
  std::int32_t* permuted_rows = nullptr;  // [num_assignments]
  std::int32_t* ends = nullptr;           // [num_experts]
  std::int64_t num_assignments = 0;
  std::int64_t num_experts = 0;
};

struct ExpertCountsArguments {
  const std::int32_t* experts = nullptr;  // [num_rows, experts_per_row]
  const float* row_counts = nullptr;      // [num_rows] 1, or 0 for rows that do not count; or null
  float* counts = nullptr;                // [num_experts], added to
  std::int64_t num_rows = 0;
  std::int64_t experts_per_row = 1;
  std::int64_t num_experts = 0;
};

// `stream` is a cudaStream_t. Both throw Error(kDevice) when a launch fails.
void launch_token_permutation(const TokenPermutationArguments& arguments, void* stream);
void launch_expert_counts(const ExpertCountsArguments& arguments, void* stream);

}  // namespace packtrain
