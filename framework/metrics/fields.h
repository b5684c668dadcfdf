// Every field of a StepRecord, once: its key in metrics.jsonl and its metric in Prometheus. Adding
// a metric is one member in StepRecord and one line in fields.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "framework/metrics/metrics.h"

namespace packtrain {

// A counter adds the field up over the steps of this process; a gauge holds the latest step's.
enum class MetricKind : std::uint8_t { kGauge, kCounter };

struct MetricField {
  const char* key;
  std::variant<double StepRecord::*, std::int64_t StepRecord::*> member;
  MetricKind kind;
  // Units and endings follow prometheus.io/docs/practices/naming.
  const char* prometheus_name;
  const char* help;
  double scale = 1;  // Prometheus has base units: what the member is multiplied by
};

// In the order in which metrics.jsonl lists them.
std::span<const MetricField> step_fields();

}  // namespace packtrain
