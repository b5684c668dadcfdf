#include "models/layers/recorded_attention.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/prepared_heads.h"
#include "models/layers/recorded_output_gate.h"
#include "models/ops/attention/attention_bytes.h"

namespace packtrain {
namespace {

AttentionParameters declare_attention(OperatorTape& tape, const std::string& name,
                                      const AttentionOptions& options) {
  const AttentionShape& shape = options.shape;
  const auto norm_of = [&](const char* part, std::int64_t num_heads) -> ParameterId {
    std::vector<std::int64_t> sizes = {shape.head_dim};
    if (options.qk_norm == QkNormKind::kNone || options.qk_norm == QkNormKind::kHeadUnit) return {};
    if (options.qk_norm == QkNormKind::kFull) sizes = {num_heads * shape.head_dim};
    if (options.qk_norm == QkNormKind::kHeadLayer) sizes = {num_heads, shape.head_dim};
    return declare_scale(tape, name + part, std::move(sizes), options.norm.weight_offset);
  };
  AttentionParameters parameters;
  parameters.query_norm = norm_of(".query_norm.weight", shape.num_heads);
  if (!options.shared.reads_keys()) {
    parameters.key_norm = norm_of(".key_norm.weight", shape.num_kv_heads);
  }
  if (options.sinks) {
    parameters.sinks = tape.parameter({name + ".sinks",
                                       {shape.num_heads},
                                       {Initialization::Kind::kNormal, options.standard_deviation},
                                       OptimizerGroup::kNoDecay});
  }
  return parameters;
}

// The norms of heads run after attention's backward, with these heads in float32. One of rotated
// heads makes these again, and has a gradient of them.
std::int64_t qk_norm_workspace(const AttentionOptions& options, const ValueShape& rotated) {
  constexpr std::int64_t kFloats = 6;
  if (options.qk_norm == QkNormKind::kTurnedHead) return 2 * rotated.bytes();
  const std::int64_t num_rows = rotated.num_rows;
  const std::int64_t query = options.shape.num_heads * options.shape.head_dim;
  const bool wide = options.qk_norm == QkNormKind::kHeadLayer;
  return wide ? kFloats * num_rows * query * static_cast<std::int64_t>(sizeof(float)) : 0;
}

BackwardMemory attention_memory(const AttentionOptions& options, const ValueShape& rotated,
                                const ValueShape& output, const MicroBatchShape& size,
                                const RecomputePolicy& policy) {
  const AttentionLoad load = {.num_tokens = rotated.num_rows,
                              .num_sequences = size.num_sequences,
                              .max_tokens = size.max_rows,
                              .num_keys = size.num_keys,
                              .max_keys = size.max_keys};
  const AttentionBytes needed = attention_backward_bytes(
      options.shape, load, size.on_gpu ? at::kCUDA : at::kCPU, size.compute);
  const bool recomputed =
      options.qk_norm != QkNormKind::kNone && !policy.keeps(ValueKind::kNormOutput);
  const std::int64_t workspace = std::max(needed.workspace, qk_norm_workspace(options, rotated));
  return {"attention backward",
          {{"gradient of attention's output", output.bytes()},
           {"gradients of attention's heads", needed.gradients, true},
           {"normalised queries and keys again", recomputed ? rotated.bytes() : 0},
           {"gradient of the gated projection",
            options.gated ? output.bytes() + 2 * rotated.bytes() : 0},
           {"attention's workspace", workspace, true}}};
}

}  // namespace

Value self_attention(OperatorTape& tape, const std::string& name, Value qkv,
                     const AttentionOptions& options) {
  const AttentionShape shape = options.shape;
  const AttentionParameters parameters = declare_attention(tape, name, options);
  const auto heads = std::make_shared<PreparedHeads>(tape, name, qkv, parameters, options);
  // Attention's operator runs this backward too, because it has the gradients of queries, keys and
  // values as separate tensors.
  Operator rotate;
  rotate.inputs = {qkv};
  rotate.outputs = heads->outputs();
  rotate.forward = [heads](OperatorContext& run) { heads->forward(run); };
  tape.record(std::move(rotate));

  const ValueShape rotated = tape.shape(heads->rotated());
  const ValueShape output = {rotated.num_rows, shape.num_heads * shape.head_dim, rotated.dtype};
  const Value y = tape.value(ValueKind::kAttentionOutput, name, output);
  const Value statistics = tape.value(ValueKind::kStatistics, name + ".statistics",
                                      {rotated.num_rows, shape.num_heads, c10::kFloat});
  Operator attend;
  attend.inputs = {heads->rotated()};
  attend.outputs = {y, statistics};
  attend.needs = heads->needs();
  attend.needs.insert(attend.needs.end(), {y, statistics});
  // Half of them are of queries and keys.
  attend.multiply_adds.of_squares = shape.num_heads * (shape.head_dim + options.value_dim) / 2;
  attend.forward = [=, sinks = parameters.sinks](OperatorContext& run) {
    AttentionOutput result = attention_forward(run.get(heads->rotated()), shape, run.batch(),
                                               run.find(sinks), run.options());
    run.set(y, std::move(result.y));
    run.set_all(statistics, std::move(result.saved));
  };
  attend.backward = [=, sinks = parameters.sinks](OperatorContext& run) {
    const at::Tensor mixed = run.get(y);
    heads->backward(run, attention_backward(run.gradient(y), run.get(heads->rotated()), mixed,
                                            run.get_all(statistics), shape, run.batch(),
                                            run.find(sinks), run.options()));
  };
  attend.memory = [=](const MicroBatchShape& size, const RecomputePolicy& policy) {
    return attention_memory(options, rotated, output, size, policy);
  };
  tape.record(std::move(attend));
  return options.gated ? gated_output(tape, name, y, qkv) : y;
}

}  // namespace packtrain
