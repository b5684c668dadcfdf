#include "models/layers/mixer_conv.h"

#include <utility>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"

namespace packtrain {

CausalConvParameters MixerConvIds::of(const OperatorContext& run) const {
  return {run.parameter(weight), run.find(bias)};
}

MixerConvIds declare_conv(OperatorTape& tape, const std::string& name, const MixerConv& conv) {
  ParameterSpec spec{name + ".weight",
                     {conv.num_channels, conv.width},
                     {.standard_deviation = conv.standard_deviation}};
  spec.is_matrix = false;
  MixerConvIds ids;
  ids.weight = tape.parameter(spec);
  ids.bias = declare_bias(tape, name + ".bias", {conv.num_channels}, conv.bias);
  return ids;
}

std::span<const std::int32_t> sequences_of(const OperatorContext& run, const char* reader) {
  run.batch().segments().require_sequences(reader);
  return run.batch().cu_seqlens_host;
}

CausalConvOptions conv_options(const OperatorContext& run, const char* reader, bool silu) {
  return {.boundaries = sequences_of(run, reader),
          .silu = silu,
          .device_boundaries = run.batch().cu_seqlens};
}

}  // namespace packtrain
