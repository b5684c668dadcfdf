// What attention's backward allocates, from shapes alone.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "models/ops/attention/attention.h"

namespace packtrain {

struct AttentionBytes {
  std::int64_t gradients = 0;  // of the heads, as the backend lays them out
  std::int64_t workspace = 0;  // freed when it returns
};

// Of a batch of `num_tokens`, where the largest of all batches has `max_tokens`: cuDNN's plans are
// made for that many. Throws what choose_attention_backend throws.
AttentionBytes attention_backward_bytes(const AttentionShape& shape, std::int64_t num_tokens,
                                        std::int64_t max_tokens, at::DeviceType device,
                                        at::ScalarType dtype);

}  // namespace packtrain
