// Sizes that cuDNN's plans are built for. Building a plan takes 45 to 60 ms. A plan for more
// sequences, longer ones or more tokens also serves a smaller batch. Measured on an H200 with cuDNN
// 9.19, 32/8 heads x 128:
//    length     no difference up to 16,384, for any longest sequence of the batch
//    tokens     no difference in time; they set the size of the workspace
//    sequences  blocks of absent ones cost time: of 14 sequences in 4,096 tokens forward takes
//               77 us in a plan for 16 and 122 us in one for 256, backward 340 and 463 us; of 60
//               in 16,384 tokens 229 and 266 us, 1,088 and 1,189 us in plans for 64 and 256.
// So there are few lengths, and the numbers of sequences grow by at most a half from one to the
// next.
#pragma once

#include <cstdint>

namespace packtrain {

struct AttentionBucket {
  std::int64_t num_sequences = 0;
  std::int64_t max_length = 0;  // of a sequence
  std::int64_t num_tokens = 0;
  std::int64_t num_keys = 0;  // of a batch with prefixes, copies included; 0: has no prefixes

  friend bool operator==(const AttentionBucket&, const AttentionBucket&) = default;
};

// Returns the smallest bucket that holds a batch. `max_length` is that of its keys.
AttentionBucket attention_bucket(std::int64_t num_sequences, std::int64_t max_length,
                                 std::int64_t num_tokens, std::int64_t num_keys = 0);

}  // namespace packtrain
