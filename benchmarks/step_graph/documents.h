// Packs of random documents, as benchmarks/train draws them.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/batch.h"

namespace packtrain {

// lognormal(5.3, 0.9) clipped to 8..4096, the last one cut so that all are `num_tokens` together.
std::vector<std::int32_t> document_lengths(std::int64_t num_tokens);

// Documents of these lengths end to end on the first GPU, random ids, all but each one's last token
// supervised. `seed`: of the ids.
DeviceBatch pack_documents(const std::vector<std::int32_t>& lengths, std::int64_t vocab_size,
                           std::uint64_t seed);

// Puts another pack's tensors into the memory of `batch`: as many rows, documents and labels.
void overwrite(DeviceBatch& batch, const DeviceBatch& other);

}  // namespace packtrain
