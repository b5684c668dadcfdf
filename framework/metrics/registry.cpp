#include "framework/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "framework/metrics/fields.h"

namespace packtrain {
namespace {

// Upper bounds in seconds: two for each doubling, from 10 ms to 11 min.
prometheus::Histogram::BucketBoundaries step_buckets() {
  constexpr int kNumBuckets = 33;
  constexpr double kShortest = 0.01;
  prometheus::Histogram::BucketBoundaries bounds;
  for (int b = 0; b < kNumBuckets; ++b) bounds.push_back(kShortest * std::exp2(b / 2.0));
  return bounds;
}

constexpr std::pair<RunState, const char*> kStates[] = {{RunState::kRunning, "running"},
                                                        {RunState::kDone, "done"},
                                                        {RunState::kStopped, "stopped"},
                                                        {RunState::kFailed, "failed"}};

double value_of(const MetricField& field, const StepRecord& record) {
  return field.scale *
         std::visit([&](auto member) { return static_cast<double>(record.*member); }, field.member);
}

// A NaN would make the counter NaN permanently.
void add(prometheus::Counter& counter, double value) {
  if (std::isfinite(value)) counter.Increment(value);
}

void set_sources(prometheus::Family<prometheus::Gauge>& family,
                 const std::vector<SourceLoss>& losses) {
  for (const SourceLoss& loss : losses) family.Add({{"source", loss.source}}).Set(loss.loss);
}

void set_statistics(prometheus::Family<prometheus::Gauge>& family,
                    const std::vector<ObjectiveStatistic>& statistics) {
  for (const ObjectiveStatistic& one : statistics) family.Add({{"name", one.name}}).Set(one.value);
}

}  // namespace

MetricsRegistry::MetricsRegistry(const MetricsOptions& options)
    : labels_({{"run", options.run_name},
               {"host", options.host},
               {"rank", std::to_string(options.rank)}}),
      num_steps_(counter("packtrain_steps_total", "Optimizer steps of this process")),
      step_duration_(prometheus::BuildHistogram()
                         .Name("packtrain_step_duration_seconds")
                         .Help("Wall time of optimizer steps")
                         .Labels(labels_)
                         .Register(registry_)
                         .Add({}, step_buckets())),
      state_(family("packtrain_run_state", "1 for the state that the run is in, else 0")),
      last_step_timestamp_(gauge("packtrain_last_step_timestamp_seconds",
                                 "Unix time of the latest step's end, or of the start")),
      evaluation_{.loss = gauge("packtrain_validation_loss",
                                "Loss of the latest evaluation, nats per supervised token"),
                  .perplexity = gauge("packtrain_validation_perplexity",
                                      "Perplexity of the latest evaluation"),
                  .loss_by_source = family("packtrain_validation_loss_by_source",
                                           "Loss of the latest evaluation, by source"),
                  .loss_by_set = family("packtrain_validation_loss_by_set",
                                        "Loss of the latest evaluation, by evaluation set"),
                  .objective = family("packtrain_validation_objective",
                                      "Statistics of the latest evaluation's objective, by name")},
      experts_{
          .auxiliary_loss =
              family("packtrain_auxiliary_loss",
                     "Load-balancing loss of the latest step, without its coefficient"),
          .load_max = family("packtrain_expert_load_max_ratio",
                             "Tokens of the busiest expert over its layer's mean, latest step"),
          .load_min = family("packtrain_expert_load_min_ratio",
                             "Tokens of the idlest expert over its layer's mean, latest step"),
          .tokens = prometheus::BuildCounter()
                        .Name("packtrain_expert_tokens_total")
                        .Help("Tokens an expert was given, all layers and ranks together")
                        .Labels(labels_)
                        .Register(registry_)},
      hessian_{.grad_norm = family("packtrain_hessian_grad_norm",
                                   "Norm of the gradient of the latest Hessian estimate"),
               .unclipped = family("packtrain_unclipped_ratio",
                                   "Elements of the weights whose step is not clipped over all, at "
                                   "the latest Hessian estimate")},
      adapters_{
          .loss = family("packtrain_adapter_loss", "Training loss of the adapter's latest step"),
          .grad_norm =
              family("packtrain_adapter_grad_norm", "Gradient norm of the adapter's latest step"),
          .learning_rate = family("packtrain_adapter_learning_rate",
                                  "Learning rate of the adapter's latest step")},
      loss_by_source_(family("packtrain_loss_by_source",
                             "Training loss of the latest step with tokens of the source")),
      objective_(
          family("packtrain_objective", "Statistics of the objective in the latest step, by name")),
      evaluate_command_(family("packtrain_evaluate_command",
                               "Latest number that run.evaluate_command printed, by name")) {
  for (const MetricField& field : step_fields()) {
    if (field.kind == MetricKind::kCounter) {
      step_metrics_.emplace_back(&counter(field.prometheus_name, field.help));
    } else {
      step_metrics_.emplace_back(&gauge(field.prometheus_name, field.help));
    }
  }
  last_step_timestamp_.SetToCurrentTime();
  set_state(RunState::kRunning);
  add_constants(options);
}

void MetricsRegistry::add_constants(const MetricsOptions& options) {
  gauge("packtrain_data_bad_lines", "Lines left out when the training stores were made")
      .Set(static_cast<double>(options.num_bad_lines));
  gauge("packtrain_planned_steps", "Optimizer steps that the run has when it is done")
      .Set(static_cast<double>(options.total_steps));
  counter("packtrain_restarts_total", "Times that the launcher has started this run again")
      .Increment(static_cast<double>(options.num_restarts));
  auto& memory = family("packtrain_planned_memory_bytes",
                        "Device memory that a rank was planned to need at most, by purpose");
  for (const auto& [purpose, bytes] : options.planned_memory_bytes) {
    memory.Add({{"purpose", purpose}}).Set(static_cast<double>(bytes));
  }
  family("packtrain_build_info", "Always 1; the build is in the labels")
      .Add({{"version", PACKTRAIN_VERSION}})
      .Set(1);
  family("packtrain_run_info", "Always 1; what the run is, is in the labels")
      .Add(options.facts)
      .Set(1);
}

prometheus::Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help) {
  // NaN before the first value, because a loss of 0 would draw a wrong curve.
  return family(name, help).Add({}, std::nan(""));
}

prometheus::Family<prometheus::Gauge>& MetricsRegistry::family(const std::string& name,
                                                               const std::string& help) {
  return prometheus::BuildGauge().Name(name).Help(help).Labels(labels_).Register(registry_);
}

prometheus::Counter& MetricsRegistry::counter(const std::string& name, const std::string& help) {
  auto& family =
      prometheus::BuildCounter().Name(name).Help(help).Labels(labels_).Register(registry_);
  return family.Add({});
}

void MetricsRegistry::ExpertMetrics::set(const ExpertLoad& load) {
  if (load.auxiliary_loss) auxiliary_loss.Add({}).Set(*load.auxiliary_loss);
  load_max.Add({}).Set(load.max);
  load_min.Add({}).Set(load.min);
  for (std::size_t e = 0; e < load.tokens.size(); ++e) {
    add(tokens.Add({{"expert", std::to_string(e)}}), load.tokens[e]);
  }
}

void MetricsRegistry::HessianMetrics::set(const HessianRecord& record) {
  grad_norm.Add({}).Set(record.grad_norm);
  if (record.unclipped_fraction) unclipped.Add({}).Set(*record.unclipped_fraction);
}

void MetricsRegistry::AdapterMetrics::set(const AdapterRecord& record) {
  const prometheus::Labels labels = {{"adapter", record.name}};
  loss.Add(labels).Set(record.loss);
  grad_norm.Add(labels).Set(record.grad_norm);
  learning_rate.Add(labels).Set(record.learning_rate);
}

void MetricsRegistry::EvaluationMetrics::set(const EvaluationRecord& record) {
  loss.Set(record.loss);
  if (record.perplexity) perplexity.Set(*record.perplexity);
  set_sources(loss_by_source, record.loss_by_source);
  set_statistics(objective, record.objective);
  for (const EvaluationRecord& one : record.all_sets) {
    loss_by_set.Add({{"set", one.set}}).Set(one.loss);
  }
}

void MetricsRegistry::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  const std::span<const MetricField> fields = step_fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const double value = value_of(fields[i], record);
    if (auto* const* counter = std::get_if<prometheus::Counter*>(&step_metrics_[i])) {
      add(**counter, value);
    } else {
      std::get<prometheus::Gauge*>(step_metrics_[i])->Set(value);
    }
  }
  set_sources(loss_by_source_, record.loss_by_source);
  set_statistics(objective_, record.objective);
  if (record.experts) experts_.set(*record.experts);
  if (record.hessian) hessian_.set(*record.hessian);
  for (const AdapterRecord& adapter : record.adapters) adapters_.set(adapter);
  num_steps_.Increment();
  step_duration_.Observe(record.step_time_s);
  last_step_timestamp_.SetToCurrentTime();
}

void MetricsRegistry::evaluation(const EvaluationRecord& record) {
  const std::lock_guard lock(mutex_);
  evaluation_.set(record);
}

void MetricsRegistry::command(const CommandRecord& record) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, value] : record.values)
    evaluate_command_.Add({{"name", name}}).Set(value);
}

void MetricsRegistry::set_state(RunState state) {
  const std::lock_guard lock(mutex_);
  for (const auto& [each, name] : kStates) state_.Add({{"state", name}}).Set(each == state ? 1 : 0);
}

std::string MetricsRegistry::page() const {
  std::vector<prometheus::MetricFamily> families;
  {
    const std::lock_guard lock(mutex_);
    families = registry_.Collect();
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace packtrain
