#include "models/ops/encoded_weight.h"

#include "models/ops/fp8/fp8_stored.h"
#include "models/ops/nf4/nf4.h"

namespace packtrain {

void decode_weight(const Parameter& weight) {
  if (weight.encoded != nullptr) decode(*weight.encoded, weight.value.view({-1}));
}

void decode(const EncodedParameter& parameter, const at::Tensor& values) {
  if (parameter.format == ParameterEncoding::Format::kFp8) return fp8_decode(parameter, values);
  nf4_decode(parameter, values);
}

}  // namespace packtrain
