// Reads and writes weights of Hugging Face files by a weight map (models/families/weight_map.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/hf_bitsandbytes.h"
#include "training/checkpoint/hf_block_fp8.h"
#include "training/checkpoint/hf_files.h"
#include "training/checkpoint/hf_types.h"
#include "training/checkpoint/hugging_face.h"

namespace packtrain {

struct HfWeights {
  const HfTensors& tensors;
  const BitsandbytesTensors& encoded;  // of these, those in NF4
  const BlockFp8Tensors& in_blocks;    // and those of 8-bit floats
};

// Fills `shards[i].weight` from the mapped files, which must have every tensor of `pieces`. For
// contiguous pieces only the owned elements are read. Encoded shards are quantised; of a tensor
// that is NF4 in the files, its codes are copied. Throws Error(kInternal) when a shard's parameter
// has no piece.
void read_hf_weights(const HfWeights& weights, const std::vector<WeightPiece>& pieces,
                     std::span<const ShardView> shards);

// Writes the tensors of `pieces` in `types`, and `copied` unchanged, as safetensors files to
// `folder`, with an index when there are several. At any time only one Hugging Face tensor and its
// parameters are in memory. Throws Error(kCheckpoint) when writing fails, or a weight is beyond the
// range of its type.
void write_hf_weights(const std::string& folder, const std::vector<WeightPiece>& pieces,
                      const ParameterSource& source, const HfTypes& types,
                      std::int64_t max_shard_bytes,
                      const std::map<std::string, HfTensor>& copied = {});

// Writes the tensors of `pieces` as the safetensors file `path`, in bfloat16 or float32. Throws
// Error(kCheckpoint) when writing fails.
void write_hf_tensors(const std::string& path, const std::vector<WeightPiece>& pieces,
                      const ParameterSource& source, bool bfloat16);

}  // namespace packtrain
