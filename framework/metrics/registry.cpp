#include "framework/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <cstddef>
#include <span>

#include "framework/metrics/fields.h"

namespace packtrain {
namespace {

double value_of(const MetricField& field, const StepRecord& record) {
  return std::visit([&](auto member) { return static_cast<double>(record.*member); }, field.member);
}

// A counter that met a NaN once would stay NaN.
void add(prometheus::Counter& counter, double value) {
  if (std::isfinite(value)) counter.Increment(value);
}

void set_sources(prometheus::Family<prometheus::Gauge>& family,
                 const std::vector<SourceLoss>& losses) {
  for (const SourceLoss& loss : losses) family.Add({{"source", loss.source}}).Set(loss.loss);
}

}  // namespace

MetricsRegistry::MetricsRegistry(const std::map<std::string, std::string>& labels)
    : labels_(labels),
      num_steps_(counter("packtrain_steps_total", "Optimizer steps of this process")),
      last_step_timestamp_(gauge("packtrain_last_step_timestamp_seconds",
                                 "Unix time of the latest step's end, or of the start")),
      validation_loss_(gauge("packtrain_validation_loss",
                             "Loss of the latest evaluation, nats per supervised token")),
      validation_perplexity_(
          gauge("packtrain_validation_perplexity", "Perplexity of the latest evaluation")),
      auxiliary_loss_(family("packtrain_auxiliary_loss",
                             "Load-balancing loss of the latest step, without its coefficient")),
      expert_load_max_(family("packtrain_expert_load_max_ratio",
                              "Tokens of the busiest expert over its layer's mean, latest step")),
      expert_load_min_(family("packtrain_expert_load_min_ratio",
                              "Tokens of the idlest expert over its layer's mean, latest step")),
      expert_tokens_(prometheus::BuildCounter()
                         .Name("packtrain_expert_tokens_total")
                         .Help("Tokens an expert was given, all layers and ranks together")
                         .Labels(labels_)
                         .Register(registry_)),
      loss_by_source_(family("packtrain_loss_by_source",
                             "Training loss of the latest step with tokens of the source")),
      validation_loss_by_source_(family("packtrain_validation_loss_by_source",
                                        "Loss of the latest evaluation, by source")) {
  for (const MetricField& field : step_fields()) {
    if (field.kind == MetricKind::kCounter) {
      step_metrics_.emplace_back(&counter(field.prometheus_name, field.help));
    } else {
      step_metrics_.emplace_back(&gauge(field.prometheus_name, field.help));
    }
  }
  last_step_timestamp_.SetToCurrentTime();
  prometheus::BuildGauge()
      .Name("packtrain_build_info")
      .Help("Always 1; the build is in the labels")
      .Labels(labels_)
      .Register(registry_)
      .Add({{"version", PACKTRAIN_VERSION}})
      .Set(1);
}

prometheus::Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help) {
  // Unknown is not zero: a loss of 0 before the first step would draw a wrong curve.
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

void MetricsRegistry::set_experts(const ExpertLoad& load) {
  if (load.auxiliary_loss) auxiliary_loss_.Add({}).Set(*load.auxiliary_loss);
  expert_load_max_.Add({}).Set(load.max);
  expert_load_min_.Add({}).Set(load.min);
  for (std::size_t e = 0; e < load.tokens.size(); ++e) {
    add(expert_tokens_.Add({{"expert", std::to_string(e)}}), load.tokens[e]);
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
  if (record.experts) set_experts(*record.experts);
  num_steps_.Increment();
  last_step_timestamp_.SetToCurrentTime();
}

void MetricsRegistry::evaluation(const EvaluationRecord& record) {
  const std::lock_guard lock(mutex_);
  validation_loss_.Set(record.loss);
  validation_perplexity_.Set(record.perplexity);
  set_sources(validation_loss_by_source_, record.loss_by_source);
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
