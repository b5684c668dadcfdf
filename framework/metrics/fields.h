// The table of the fields of a StepRecord: key in metrics.jsonl and metric in Prometheus. A new
// metric needs a member in StepRecord and a line in fields.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "framework/metrics/metrics.h"

namespace packtrain {

// A counter sums the field over the steps of this process. A gauge has the latest step's value.
enum class MetricKind : std::uint8_t { kGauge, kCounter };

struct MetricField {
  const char* key;
  std::variant<double StepRecord::*, std::int64_t StepRecord::*> member;
  MetricKind kind;
  // Units and suffixes follow prometheus.io/docs/practices/naming.
  const char* prometheus_name;
  const char* help;
  double scale = 1;  // factor from the member's unit to Prometheus' base unit
};

// In the order of metrics.jsonl.
std::span<const MetricField> step_fields();

}  // namespace packtrain
