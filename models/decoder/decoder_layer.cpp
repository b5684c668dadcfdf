#include "models/decoder/decoder_layer.h"

#include <string>
#include <utility>

namespace packtrain {

DecoderLayer::DecoderLayer(const DecoderConfig& config, std::int64_t index,
                           RecomputeByRows policies, std::vector<ParameterSpec> parameters,
                           std::shared_ptr<const RotaryFrequencies> frequencies)
    : RecordedBlock("layers." + std::to_string(index), std::move(parameters), std::move(policies)),
      operators_(config, index, std::move(frequencies)) {}

}  // namespace packtrain
