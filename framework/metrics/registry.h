// The metrics of one rank in Prometheus.
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "framework/metrics/metrics.h"

namespace packtrain {

// Thread-safe. A page never mixes two steps.
class MetricsRegistry {
 public:
  explicit MetricsRegistry(const MetricsOptions& options);

  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  void command(const CommandRecord& record);
  void set_state(RunState state);
  // Prometheus text exposition format, version 0.0.4.
  std::string page() const;

 private:
  // Values are created in the first step with experts. Tokens have one counter for each expert.
  struct ExpertMetrics {
    prometheus::Family<prometheus::Gauge>& auxiliary_loss;
    prometheus::Family<prometheus::Gauge>& load_max;
    prometheus::Family<prometheus::Gauge>& load_min;
    prometheus::Family<prometheus::Counter>& tokens;

    void set(const ExpertLoad& load);
  };

  // Values are created in the first step that updates a Hessian estimate.
  struct HessianMetrics {
    prometheus::Family<prometheus::Gauge>& grad_norm;
    prometheus::Family<prometheus::Gauge>& unclipped;

    void set(const HessianRecord& record);
  };

  // One value for each adapter, of several that are trained together.
  struct AdapterMetrics {
    prometheus::Family<prometheus::Gauge>& loss;
    prometheus::Family<prometheus::Gauge>& grad_norm;
    prometheus::Family<prometheus::Gauge>& learning_rate;

    void set(const AdapterRecord& record);
  };

  // The latest evaluation. The families have a gauge for each source, set
  // and statistic.
  struct EvaluationMetrics {
    prometheus::Gauge& loss;
    prometheus::Gauge& perplexity;
    prometheus::Family<prometheus::Gauge>& loss_by_source;
    prometheus::Family<prometheus::Gauge>& loss_by_set;
    prometheus::Family<prometheus::Gauge>& objective;  // of the deciding set

    void set(const EvaluationRecord& record);
  };

  void add_constants(const MetricsOptions& options);
  prometheus::Gauge& gauge(const std::string& name, const std::string& help);
  prometheus::Counter& counter(const std::string& name, const std::string& help);
  prometheus::Family<prometheus::Gauge>& family(const std::string& name, const std::string& help);

  mutable std::mutex mutex_;
  prometheus::Registry registry_;
  std::map<std::string, std::string> labels_;
  // In the order of step_fields().
  std::vector<std::variant<prometheus::Gauge*, prometheus::Counter*>> step_metrics_;
  prometheus::Counter& num_steps_;
  prometheus::Histogram& step_duration_;
  prometheus::Family<prometheus::Gauge>& state_;
  prometheus::Gauge& last_step_timestamp_;
  EvaluationMetrics evaluation_;
  ExpertMetrics experts_;
  HessianMetrics hessian_;
  AdapterMetrics adapters_;
  // One gauge for each source, created in the first step that has it.
  prometheus::Family<prometheus::Gauge>& loss_by_source_;
  prometheus::Family<prometheus::Gauge>& objective_;         // one gauge for each statistic
  prometheus::Family<prometheus::Gauge>& evaluate_command_;  // one gauge for each name
};

}  // namespace packtrain
