// Replaces all CUDA operators in a build without CUDA.
#include "models/ops/activation/activation.h"
#include "models/ops/cuda/not_built.h"
#include "models/ops/dropout/dropout.h"
#include "models/ops/embedding/embedding.h"
#include "models/ops/experts/permute.h"
#include "models/ops/experts/routing.h"
#include "models/ops/experts/token_permutation.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "models/ops/layer_norm/layer_norm.h"
#include "models/ops/linear/bias_gradient_cuda.h"
#include "models/ops/linear/dora.h"
#include "models/ops/linear/own_rows.h"
#include "models/ops/linear_cross_entropy/cross_entropy.h"
#include "models/ops/linear_cross_entropy/greedy.h"
#include "models/ops/linear_cross_entropy/sample_labels.h"
#include "models/ops/matmul/matmul.h"
#include "models/ops/nf4/nf4.h"
#include "models/ops/qk_norm/qk_norm.h"
#include "models/ops/random_normal/random_normal.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

at::Tensor activation_forward_cuda(const at::Tensor& /*x*/, const Activation& /*activation*/,
                                   const at::Tensor& /*amax*/) {
  throw_cuda_not_built("activation_forward");
}

void activation_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                              const Activation& /*activation*/, const at::Tensor& /*dx*/,
                              const at::Tensor& /*recomputed_output*/, const at::Tensor& /*amax*/) {
  throw_cuda_not_built("activation_backward");
}

at::Tensor dropout_cuda(const at::Tensor& /*x*/, const DropoutMask& /*mask*/) {
  throw_cuda_not_built("dropout");
}

at::Tensor dora_scale_forward_cuda(const at::Tensor& /*z*/, const at::Tensor& /*factors*/,
                                   const Parameter* /*bias*/, const at::Tensor& /*residual*/) {
  throw_cuda_not_built("dora_scale");
}

at::Tensor dora_scale_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*z*/,
                                    const at::Tensor& /*factors*/) {
  throw_cuda_not_built("dora_scale");
}

at::Tensor embedding_forward_cuda(const at::Tensor& /*ids*/, const Parameter& /*weight*/) {
  throw_cuda_not_built("embedding_forward");
}

void embedding_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*ids*/,
                             const Parameter& /*weight*/) {
  throw_cuda_not_built("embedding_backward");
}

at::Tensor unpermute_sum_cuda(const at::Tensor& /*values*/, const at::Tensor& /*places*/,
                              const at::Tensor& /*weights*/, const at::Tensor& /*addend*/) {
  throw_cuda_not_built("unpermute_sum");
}

at::Tensor permute_rows_cuda(const at::Tensor& /*rows*/, const at::Tensor& /*places*/,
                             const at::Tensor& /*weights*/) {
  throw_cuda_not_built("permute_rows");
}

at::Tensor grad_routing_weight_cuda(const at::Tensor& /*a*/, const at::Tensor& /*b*/,
                                    const at::Tensor& /*places*/, const at::Tensor& /*divisors*/) {
  throw_cuda_not_built("grad_routing_weight");
}

Routing choose_experts_cuda(const at::Tensor& /*logits*/, const RoutingOptions& /*options*/) {
  throw_cuda_not_built("choose_experts");
}

at::Tensor routing_backward_cuda(const at::Tensor& /*grad_weights*/,
                                 const at::Tensor& /*grad_probabilities*/,
                                 const Routing& /*routing*/, std::int64_t /*num_experts*/,
                                 const RoutingOptions& /*options*/) {
  throw_cuda_not_built("routing_backward");
}

TokenPermutation sort_tokens_by_expert_cuda(const at::Tensor& /*experts*/,
                                            std::int64_t /*num_experts*/) {
  throw_cuda_not_built("sort_tokens_by_expert");
}

void count_tokens_per_expert_cuda(const at::Tensor& /*experts*/, const at::Tensor& /*row_counts*/,
                                  const at::Tensor& /*counts*/) {
  throw_cuda_not_built("count_tokens_per_expert");
}

at::Tensor squared_norm_partials_cuda(const at::Tensor& /*values*/) {
  throw_cuda_not_built("squared_norm_partials");
}

at::Tensor step_sums_cuda(const at::Tensor& /*partials*/, const at::Tensor& /*loss*/,
                          const RequestCounts& /*requests*/, const at::Tensor& /*details*/) {
  throw_cuda_not_built("step_sums");
}

StepScalars step_scalars_cuda(const at::Tensor& /*sums*/, double /*max_norm*/,
                              const RefusalBounds& /*bounds*/) {
  throw_cuda_not_built("step_scalars");
}

LayerNormOutput layer_norm_forward_cuda(const at::Tensor& /*x*/, const Parameter& /*weight*/,
                                        const Parameter* /*bias*/,
                                        const LayerNormOptions& /*options*/,
                                        const at::Tensor& /*amax*/) {
  throw_cuda_not_built("layer_norm_forward");
}

at::Tensor layer_norm_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                    const at::Tensor& /*mean*/,
                                    const at::Tensor& /*inverse_deviation*/,
                                    const Parameter& /*weight*/, const Parameter* /*bias*/,
                                    const at::Tensor& /*grad_residual*/,
                                    const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("layer_norm_backward");
}

void bias_gradient_cuda(const at::Tensor& /*grad_output*/, const Parameter& /*bias*/) {
  throw_cuda_not_built("bias_gradient");
}

void cross_entropy_cuda(const at::Tensor& /*logits*/, const CrossEntropyTargets& /*targets*/,
                        const CrossEntropyOptions& /*options*/) {
  throw_cuda_not_built("cross_entropy");
}

void greedy_labels_cuda(const at::Tensor& /*logits*/, const at::Tensor& /*labels*/,
                        const at::Tensor& /*greedy*/) {
  throw_cuda_not_built("greedy_labels");
}

void sample_labels_cuda(const at::Tensor& /*logits*/, const at::Tensor& /*row_seeds*/,
                        const CrossEntropyOptions& /*options*/, const at::Tensor& /*labels*/) {
  throw_cuda_not_built("sample_labels");
}

void gemm_cuda(const at::Tensor& /*out*/, const at::Tensor& /*left*/, const at::Tensor& /*right*/,
               const GemmTerms& /*terms*/, const GemmTiming& /*timing*/) {
  throw_cuda_not_built("gemm");
}

double gemm_timing_seconds_cuda() {
  return 0;
}

std::int64_t num_timed_matmuls() {
  return 0;
}

QkNormOutput qk_norm_forward_cuda(const at::Tensor& /*qkv*/, const QkNorm& /*norm*/,
                                  const at::Tensor& /*position_ids*/,
                                  const at::Tensor& /*frequencies*/,
                                  const RotaryOptions& /*rotary*/) {
  throw_cuda_not_built("qk_norm_forward");
}

at::Tensor qk_norm_backward_cuda(const at::Tensor& /*grad_query*/, const at::Tensor& /*grad_key*/,
                                 const at::Tensor& /*grad_value*/, const at::Tensor& /*qkv*/,
                                 const at::Tensor& /*inverse_rms*/, const QkNorm& /*norm*/,
                                 const at::Tensor& /*position_ids*/,
                                 const at::Tensor& /*frequencies*/,
                                 const RotaryOptions& /*rotary*/) {
  throw_cuda_not_built("qk_norm_backward");
}

void random_normal_cuda(const at::Tensor& /*values*/, const CounterRandom& /*random*/,
                        std::int64_t /*begin*/, double /*deviation*/) {
  throw_cuda_not_built("random_normal");
}

RmsNormOutput rms_norm_forward_cuda(const at::Tensor& /*x*/, const Parameter& /*weight*/,
                                    const RmsNormOptions& /*options*/, const at::Tensor& /*amax*/) {
  throw_cuda_not_built("rms_norm_forward");
}

at::Tensor rms_norm_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                  const at::Tensor& /*inverse_rms*/, const Parameter& /*weight*/,
                                  const RmsNormOptions& /*options*/,
                                  const at::Tensor& /*grad_residual*/,
                                  const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("rms_norm_backward");
}

at::Tensor rms_norm_forward_into_cuda(const at::Tensor& /*y*/, const at::Tensor& /*x*/,
                                      const Parameter& /*weight*/,
                                      const RmsNormOptions& /*options*/) {
  throw_cuda_not_built("rms_norm_forward_into");
}

void rms_norm_backward_cuda_(const at::Tensor& /*grad*/, const at::Tensor& /*x*/,
                             const at::Tensor& /*inverse_rms*/, const Parameter& /*weight*/,
                             const RmsNormOptions& /*options*/) {
  throw_cuda_not_built("rms_norm_backward");
}

void rotary_forward_cuda_(const at::Tensor& /*qkv*/, const at::Tensor& /*position_ids*/,
                          const at::Tensor& /*frequencies*/, const RotaryOptions& /*options*/) {
  throw_cuda_not_built("rotary_forward");
}

at::Tensor rotary_backward_cuda(const at::Tensor& /*grad_query*/, const at::Tensor& /*grad_key*/,
                                const at::Tensor& /*grad_value*/,
                                const at::Tensor& /*position_ids*/,
                                const at::Tensor& /*frequencies*/,
                                const RotaryOptions& /*options*/) {
  throw_cuda_not_built("rotary_backward");
}

void scale_own_rows_cuda(const at::Tensor& /*s*/, const LoraModules& /*modules*/,
                         const at::Tensor& /*begins*/) {
  throw_cuda_not_built("scale_own_rows");
}

void nf4_decode_cuda(const EncodedParameter& /*parameter*/, const at::Tensor& /*values*/) {
  throw_cuda_not_built("nf4_decode");
}

at::Tensor nf4_absmax_cuda(const at::Tensor& /*values*/) {
  throw_cuda_not_built("nf4_absmax");
}

void nf4_quantize_cuda(const at::Tensor& /*values*/, float /*offset*/,
                       const at::Tensor& /*groups*/) {
  throw_cuda_not_built("nf4_quantize");
}

}  // namespace packtrain
