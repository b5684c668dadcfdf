#include "models/recorded_attention.h"

#include <string>
#include <utility>

namespace packtrain {

Value self_attention(OperatorTape& tape, std::string_view name, Value qkv,
                     const AttentionOptions& options, const DeviceBatch& batch) {
  const AttentionShape shape = options.shape;
  const RotaryEmbedding rotary = options.rotary;
  const Value y = tape.value(ValueKind::kAttended, name);
  const Value turned = tape.value(ValueKind::kProjection, std::string(name) + ".rotated_qkv");
  const Value statistics = tape.value(ValueKind::kStatistics, std::string(name) + ".statistics");
  const std::int64_t num_heads = shape.num_heads + 2 * shape.num_kv_heads;
  OperatorTape::Operator step;
  step.outputs = {y, turned, statistics};
  step.needs = {y, turned, statistics};
  step.forward = [=, &tape, &batch] {
    at::Tensor heads = tape.get(qkv).view({-1, num_heads, shape.head_dim});
    tape.release(qkv);
    rotary_forward_(heads, batch.position_ids, rotary.frequencies, rotary.options);
    AttentionOutput output = attention_forward(heads, shape, batch);
    tape.set(turned, std::move(heads));
    tape.set(y, std::move(output.y));
    tape.set_all(statistics, std::move(output.saved));
  };
  step.backward = [=, &tape, &batch] {
    const at::Tensor mixed = tape.get(y);
    const HeadGradients grads = attention_backward(tape.gradient(y), tape.get(turned), mixed,
                                                   tape.get_all(statistics), shape, batch);
    const at::Tensor grad = rotary_backward(grads.query, grads.key, grads.value, batch.position_ids,
                                            rotary.frequencies, rotary.options);
    tape.set_gradient(qkv, grad.view({grad.size(0), num_heads * shape.head_dim}));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
