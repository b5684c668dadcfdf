// The data types of a Hugging Face folder's tensors, for a folder that keeps them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/core/data_type.h"
#include "models/families/weight_map.h"
#include "training/checkpoint/hf_text_tower.h"

namespace packtrain {

struct HfTypes {
  std::map<std::string, DataType> of_tensor = {};  // by the tensor's name
  DataType of_others = DataType::kBFloat16;
};

// The types of the tensors that `pieces` writes: float32, bfloat16 or float16. A tensor that
// `tensors` lacks, or has in another type (8 bits, NF4), gets the type that most elements have.
// Without any it gets bfloat16.
HfTypes types_of(const HfTensors& tensors, const std::vector<WeightPiece>& pieces);

// "bfloat16": as config.json names the type.
std::string name_in_config(DataType type);

// The `dtype` of a config.json where it is a type of weights, also of its text model. Else "".
std::string dtype_of_config(const std::string& config_json);

}  // namespace packtrain
