// The causal convolution of a mixer (ops/delta_rule/causal_conv.h): its parameters, and the
// sequences of the batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/block/operator_tape.h"
#include "models/ops/delta_rule/causal_conv.h"

namespace packtrain {

class OperatorContext;

struct MixerConv {
  std::int64_t num_channels = 0;
  std::int64_t width = 0;
  bool bias = false;
  double standard_deviation = 0.02;  // of the initial weights
};

struct MixerConvIds {
  ParameterId weight;
  ParameterId bias;

  CausalConvParameters of(const OperatorContext& run) const;
};

// Declares NAME.weight [channels, width], which optimizers of matrices leave to AdamW, and
// NAME.bias [channels], zeros at first.
MixerConvIds declare_conv(OperatorTape& tape, const std::string& name, const MixerConv& conv);

// The boundaries of the batch's sequences. Throws Error(kInternal), which names `reader`, where
// segments share rows: a mixer that is no attention cannot follow shared rows.
std::span<const std::int32_t> sequences_of(const OperatorContext& run, const char* reader);
// The sequences as the convolution reads them.
CausalConvOptions conv_options(const OperatorContext& run, const char* reader, bool silu = true);

}  // namespace packtrain
