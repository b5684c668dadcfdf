#include "models/layers/recorded_router.h"

#include <utility>

#include "models/layers/routing_statistics.h"
#include "models/ops/experts/expert_scale.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

RoutingOptions routing_options(const ExpertsConfig& config) {
  return {.experts_per_row = config.experts_per_token,
          .normalize = !config.softmax_first || config.normalize_weights,
          .keep_probabilities = config.auxiliary_loss != 0,
          .kind = config.router,
          .choice_bias = config.choice_bias,
          .num_groups = config.num_groups,
          .groups_per_row = config.groups_per_token,
          .weight_multiplier = config.weight_multiplier,
          .logit_multiplier = config.logit_multiplier,
          .sum_epsilon = config.sum_epsilon,
          .mixer_epsilon = config.mixer_epsilon};
}

RoutedValues routed_values(OperatorTape& tape, const std::string& name, std::int64_t num_rows,
                           const ExpertsConfig& config) {
  const auto number = [&](const char* what, std::int64_t rows, std::int64_t width,
                          c10::ScalarType dtype) {
    return tape.value(ValueKind::kStatistics, name + what, {rows, width, dtype});
  };
  const std::int64_t chosen = config.experts_per_token;
  const RoutingOptions how = routing_options(config);
  return {
      number(".router.weights", num_rows, chosen, c10::kFloat),
      number(".router.experts", num_rows, chosen, c10::kInt),
      number(".router.probabilities", num_rows, how.reads_probabilities() ? config.num_experts : 0,
             c10::kFloat),
      number(".router.logits", num_rows, how.reads_logits() ? config.num_experts : 0, c10::kFloat),
      number(".order", num_rows, chosen, c10::kInt),
      number(".order.ends", 1, config.num_experts, c10::kInt)};
}

}  // namespace

RoutedValues record_router(OperatorTape& tape, const std::string& name, Value x,
                           const ExpertsParameters& parameters, const ExpertsOptions& options) {
  const ValueShape in = tape.shape(x);
  const RoutedValues routed = routed_values(tape, name, in.num_rows, options.experts);
  const RoutingOptions how = routing_options(options.experts);
  const bool all_rows = in.num_rows == tape.num_rows();
  Operator step;
  step.inputs = {x};
  step.outputs = {routed.weights, routed.choice, routed.probabilities,
                  routed.logits,  routed.order,  routed.ends};
  step.needs = {x, routed.weights, routed.choice, routed.probabilities, routed.logits};
  MultiplyAdds& sums = step.multiply_adds;
  (options.router_trained ? sums.of_rows : sums.of_frozen_rows) =
      in.numel() * options.experts.num_experts;
  step.forward = [=](OperatorContext& run) {
    const RouterWeights router{run.parameter(parameters.router), run.find(parameters.router_bias),
                               run.find(parameters.choice_bias)};
    Routing routing = route(run.get(x), router, how, run.options().gemm_timing);
    write_routing(run.batch(), routing, options.experts, options.layer, options.num_layers,
                  all_rows);
    TokenPermutation order = sort_tokens_by_expert(routing.experts, options.experts.num_experts);
    run.set(routed.weights, std::move(routing.weights));
    run.set(routed.choice, std::move(routing.experts));
    run.set(routed.probabilities, std::move(routing.probabilities));
    run.set(routed.logits, std::move(routing.logits));
    run.set(routed.order, std::move(order.permuted_rows));
    run.set(routed.ends, std::move(order.ends));
  };
  step.backward = [=](OperatorContext& run) {
    const Parameter& router = run.parameter(parameters.router);
    const Parameter* bias = run.find(parameters.router_bias);
    const at::Tensor grad =
        routing_backward(run.gradient(routed.weights), auxiliary_gradient(run.batch()),
                         routed.routing(run), options.experts.num_experts, how)
            .to(router.value.scalar_type());
    const GemmTiming& timing = run.options().gemm_timing;
    run.set_gradient(x, linear_backward_input(grad, router, timing, run.gradient(x)));
    run.when_available(x, [=, &router, &timing](const at::Tensor& rows) {
      linear_backward_weight(grad, rows, router, bias, timing);
    });
  };
  tape.record(std::move(step));
  return routed;
}

Value scaled_weights(OperatorTape& tape, const std::string& name, const RoutedValues& routed,
                     ParameterId expert_scale) {
  const Value y = tape.value(ValueKind::kStatistics, name + ".router.scaled_weights",
                             tape.shape(routed.weights));
  Operator step;
  step.inputs = {routed.weights, routed.choice};
  step.outputs = {y};
  step.needs = step.inputs;
  step.forward = [=](OperatorContext& run) {
    run.set(y, scale_by_expert(run.get(routed.weights), run.get(routed.choice),
                               run.parameter(expert_scale)));
  };
  step.backward = [=](OperatorContext& run) {
    run.set_gradient(routed.weights,
                     scale_by_expert_backward(run.gradient(y), run.get(routed.weights),
                                              run.get(routed.choice), run.parameter(expert_scale)));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
