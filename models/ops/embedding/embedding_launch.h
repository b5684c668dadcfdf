#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct EmbeddingArguments {
  const std::int32_t* ids = nullptr;  // [num_tokens]; backward: sorted
  const void* rows = nullptr;         // forward: the weight [vocab_size, hidden];
                                      // backward: grad_output [num_tokens, hidden]
  void* output = nullptr;             // forward [num_tokens, hidden], backward [vocab_size, hidden]
  std::int64_t num_tokens = 0;
  std::int64_t hidden = 0;
  DataType dtype = DataType::kFloat32;  // dtype of rows and of forward's output
  // Only for backward:
  const std::int32_t* order = nullptr;  // [num_tokens] the token of each sorted id
  float* partials = nullptr;            // [num_embedding_chunks(num_tokens), 2, hidden]
  DataType grad_dtype = DataType::kFloat32;
  bool accumulate = false;
};

// Number of chunks of sorted ids that are summed separately.
std::int64_t num_embedding_chunks(std::int64_t num_tokens);

// Bytes of temporary memory that sort_token_ids needs.
std::size_t token_sort_bytes(std::int64_t num_tokens, std::int64_t vocab_size);
// Writes ids in ascending order to `sorted` and their tokens to `order`, ascending among equal ids.
// `tokens` [num_tokens] is scratch. Here and below `stream` is a cudaStream_t, and a failed launch
// throws Error(kDevice).
void sort_token_ids(const std::int32_t* ids, std::int64_t num_tokens, std::int64_t vocab_size,
                    std::int32_t* sorted, std::int32_t* tokens, std::int32_t* order,
                    void* temporary, std::size_t temporary_bytes, void* stream);

// Zeroes the rows [vocab_size, row_bytes] of ids that do not occur. `present` [vocab_size] is
// scratch.
void zero_absent_rows(const std::int32_t* ids, std::int64_t num_tokens, std::int64_t vocab_size,
                      std::int64_t row_bytes, std::uint8_t* present, void* rows, void* stream);

void launch_embedding_forward(const EmbeddingArguments& arguments, void* stream);
// Writes the rows of ids that occur, or adds to them.
void launch_embedding_backward(const EmbeddingArguments& arguments, void* stream);

}  // namespace packtrain
