// Weights out of and into Hugging Face files, as a map of pieces says
// (models/families/weight_map.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/checkpoint/hf_files.h"
#include "framework/checkpoint/hugging_face.h"

namespace packtrain {

// Fills `shards[i].weight` out of the mapped files, which have every tensor of `pieces`. Of
// contiguous pieces only the owned elements are read. Throws Error(kInternal) when a shard's
// parameter has no piece.
void read_hf_weights(const std::map<std::string, HfTensor>& tensors,
                     const std::vector<WeightPiece>& pieces, std::span<const ShardView> shards);

// Writes safetensors files of the tensors of `pieces`, and of `copied` as they are, to `folder`
// and, where there are several, their index. At any time one Hugging Face tensor and the parameters
// that it is made of are in memory. Throws Error(kCheckpoint) when writing fails.
void write_hf_weights(const std::string& folder, const std::vector<WeightPiece>& pieces,
                      const ParameterSource& source, const ExportOptions& options,
                      const std::map<std::string, HfTensor>& copied = {});

}  // namespace packtrain
