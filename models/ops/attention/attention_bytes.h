// Memory that attention's backward allocates, from shapes alone.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "models/ops/attention/attention.h"

namespace packtrain {

struct AttentionBytes {
  std::int64_t gradients = 0;  // of the heads, in the backend's layout
  std::int64_t workspace = 0;  // freed at return
};

struct AttentionLoad {
  std::int64_t num_tokens = 0;
  std::int64_t num_sequences = 1;
  std::int64_t max_tokens = 0;  // of the largest batch: cuDNN's plans are built for it
  // The same for keys where segments have prefixes (expanded_keys.h). 0: none has.
  std::int64_t num_keys = 0;
  std::int64_t max_keys = 0;
};

// Throws what choose_attention_backend throws.
AttentionBytes attention_backward_bytes(const AttentionShape& shape, const AttentionLoad& load,
                                        at::DeviceType device, at::ScalarType dtype);

}  // namespace packtrain
