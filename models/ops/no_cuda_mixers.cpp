// Replaces the CUDA operators of gated mixers, AltUp and xIELU in a build without CUDA.
#include "models/block/operator_tape.h"
#include "models/ops/altup/altup.h"
#include "models/ops/column_factors/column_factors.h"
#include "models/ops/cuda/not_built.h"
#include "models/ops/delta_gates/delta_gates.h"
#include "models/ops/delta_rule/causal_conv.h"
#include "models/ops/delta_rule/delta_rule.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "models/ops/gate_cutoff/gate_cutoff.h"
#include "models/ops/gated_norm/gated_norm.h"
#include "models/ops/gated_norm/product_norm.h"
#include "models/ops/latent_heads/latent_heads.h"
#include "models/ops/mamba2/ssd.h"
#include "models/ops/output_gate/output_gate.h"
#include "models/ops/short_conv/short_conv.h"
#include "models/ops/xielu/xielu.h"

namespace packtrain {

at::Tensor altup_mix_cuda(const at::Tensor& /*rows*/, const at::Tensor& /*mixing*/,
                          const AltUpShape& /*shape*/) {
  throw_cuda_not_built("altup_predict");
}

AltUpRowGradients altup_mix_backward_cuda(const at::Tensor& /*grad*/, const at::Tensor& /*rows*/,
                                          const at::Tensor& /*mixing*/,
                                          const AltUpShape& /*shape*/) {
  throw_cuda_not_built("altup_predict_backward");
}

at::Tensor altup_update_cuda(const at::Tensor& /*predictions*/, const at::Tensor& /*activated*/,
                             const at::Tensor& /*factors*/, const AltUpShape& /*shape*/) {
  throw_cuda_not_built("altup_correct");
}

AltUpRowGradients altup_update_backward_cuda_(const at::Tensor& /*grad*/,
                                              const at::Tensor& /*predictions*/,
                                              const at::Tensor& /*activated*/,
                                              const at::Tensor& /*factors*/,
                                              const AltUpShape& /*shape*/) {
  throw_cuda_not_built("altup_correct_backward");
}

at::Tensor match_magnitude_cuda(const at::Tensor& /*p*/, const at::Tensor& /*target*/) {
  throw_cuda_not_built("match_magnitude");
}

MagnitudeGradients match_magnitude_backward_cuda(const at::Tensor& /*grad*/,
                                                 const at::Tensor& /*p*/,
                                                 const at::Tensor& /*target*/) {
  throw_cuda_not_built("match_magnitude_backward");
}

at::Tensor gate_cutoff_forward_cuda(const at::Tensor& /*x*/, double /*quantile*/) {
  throw_cuda_not_built("gate_cutoff_forward");
}

void gate_cutoff_backward_cuda_(const at::Tensor& /*grad*/, const at::Tensor& /*x*/,
                                double /*quantile*/) {
  throw_cuda_not_built("gate_cutoff_backward");
}

at::Tensor causal_conv_forward_cuda(const at::Tensor& /*x*/,
                                    const CausalConvParameters& /*parameters*/,
                                    const CausalConvOptions& /*options*/) {
  throw_cuda_not_built("causal_conv_forward");
}

void causal_conv_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                               const CausalConvParameters& /*parameters*/,
                               const CausalConvOptions& /*options*/, const at::Tensor& /*grad_x*/) {
  throw_cuda_not_built("causal_conv_backward");
}

int delta_rule_shared_bytes() {
  return kHopperSharedBytes;
}

at::Tensor delta_rule_forward_cuda(const DeltaRuleInputs& /*inputs*/,
                                   const DeltaRuleOptions& /*options*/) {
  throw_cuda_not_built("delta_rule_forward");
}

DeltaRuleInputs delta_rule_backward_cuda(const at::Tensor& /*grad_output*/,
                                         const DeltaRuleInputs& /*inputs*/,
                                         const DeltaRuleOptions& /*options*/) {
  throw_cuda_not_built("delta_rule_backward");
}

DeltaRuleInputs delta_gates_forward_cuda(const at::Tensor& /*mixed*/, const at::Tensor& /*ba*/,
                                         const DeltaGates& /*gates*/) {
  throw_cuda_not_built("delta_gates_forward");
}

DeltaGatesGradients delta_gates_backward_cuda(const DeltaRuleInputs& /*grads*/,
                                              const at::Tensor& /*mixed*/, const at::Tensor& /*ba*/,
                                              const DeltaGates& /*gates*/) {
  throw_cuda_not_built("delta_gates_backward");
}

GatedNormOutput gated_norm_forward_cuda(const at::Tensor& /*x*/, const at::Tensor& /*z*/,
                                        const Parameter& /*weight*/, double /*epsilon*/) {
  throw_cuda_not_built("gated_norm_forward");
}

at::Tensor gated_norm_backward_cuda(const at::Tensor& /*grad_output*/,
                                    const GatedNormSaved& /*saved*/, const Parameter& /*weight*/,
                                    const at::Tensor& /*grad_z*/,
                                    const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("gated_norm_backward");
}

void multiply_columns_cuda_(const at::Tensor& /*rows*/,
                            const std::vector<ColumnFactor>& /*factors*/) {
  throw_cuda_not_built("multiply_columns");
}

at::Tensor product_norm_forward_cuda(const at::Tensor& /*x*/, const at::Tensor& /*z*/,
                                     const Parameter* /*weight*/,
                                     const ProductNormOptions& /*options*/) {
  throw_cuda_not_built("product_norm_forward");
}

at::Tensor product_norm_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                      const at::Tensor& /*z*/, const Parameter* /*weight*/,
                                      const ProductNormOptions& /*options*/,
                                      const at::Tensor& /*grad_z*/,
                                      const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("product_norm_backward");
}

at::Tensor ssd_forward_cuda(const SsdInputs& /*inputs*/, const at::Tensor& /*skip*/,
                            const SsdOptions& /*options*/) {
  throw_cuda_not_built("ssd_forward");
}

at::Tensor ssd_backward_cuda(const at::Tensor& /*grad_output*/, const SsdInputs& /*inputs*/,
                             const at::Tensor& /*skip*/, const SsdOptions& /*options*/,
                             const SsdInputs& /*grads*/) {
  throw_cuda_not_built("ssd_backward");
}

at::Tensor merge_latent_heads_cuda(const LatentHeads& /*heads*/, const LatentHeadShape& /*shape*/) {
  throw_cuda_not_built("merge_latent_heads");
}

LatentHeads merge_latent_heads_backward_cuda(const at::Tensor& /*grad*/,
                                             const LatentHeadShape& /*shape*/) {
  throw_cuda_not_built("merge_latent_heads_backward");
}

at::Tensor output_gate_forward_cuda(const at::Tensor& /*x*/, const at::Tensor& /*z*/) {
  throw_cuda_not_built("output_gate_forward");
}

at::Tensor output_gate_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                     const at::Tensor& /*z*/, const at::Tensor& /*grad_z*/,
                                     const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("output_gate_backward");
}

at::Tensor short_conv_forward_cuda(const at::Tensor& /*projection*/,
                                   const CausalConvParameters& /*parameters*/,
                                   const CausalConvOptions& /*options*/) {
  throw_cuda_not_built("short_conv_forward");
}

at::Tensor short_conv_backward_cuda(const at::Tensor& /*grad_output*/,
                                    const at::Tensor& /*projection*/,
                                    const CausalConvParameters& /*parameters*/,
                                    const CausalConvOptions& /*options*/,
                                    const at::Tensor& /*output*/) {
  throw_cuda_not_built("short_conv_backward");
}

at::Tensor xielu_forward_cuda(const at::Tensor& /*x*/, const at::Tensor& /*numbers*/) {
  throw_cuda_not_built("xielu_forward");
}

at::Tensor xielu_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                               const at::Tensor& /*numbers*/,
                               const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("xielu_backward");
}

}  // namespace packtrain
