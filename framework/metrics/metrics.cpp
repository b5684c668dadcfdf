#include "framework/metrics/metrics.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>

#include "framework/metrics/exporter.h"
#include "framework/metrics/json_line.h"
#include "framework/metrics/listen_socket.h"
#include "framework/metrics/metrics_file.h"
#include "framework/metrics/progress.h"
#include "framework/metrics/registry.h"

namespace packtrain {
namespace {

double monotonic_time_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// What only rank 0 writes.
class RunLog {
 public:
  explicit RunLog(const MetricsOptions& options)
      : file_((std::filesystem::path(options.run_folder) / "metrics.jsonl").string(),
              options.first_step),
        progress_(options.total_steps, ProgressOutput::standard_error()) {}

  void step(const StepRecord& record) {
    file_.append(step_json_line(record));
    progress_.step(record, monotonic_time_s());
  }

  void evaluation(const EvaluationRecord& record) {
    file_.append(evaluation_json_line(record));
    progress_.evaluation(record);
  }

 private:
  MetricsFile file_;
  Progress progress_;
};

class RunMetrics final : public Metrics {
 public:
  explicit RunMetrics(const MetricsOptions& options)
      : registry_({{"run", options.run_name},
                   {"host", options.host},
                   {"rank", std::to_string(options.rank)}}) {
    if (options.serve) serve(options.address, options.port);
    if (options.rank == 0) log_.emplace(options);
  }

  void step(const StepRecord& record) override {
    registry_.step(record);
    if (log_) log_->step(record);
  }

  void evaluation(const EvaluationRecord& record) override {
    registry_.evaluation(record);
    if (log_) log_->evaluation(record);
  }

  std::optional<std::string> endpoint() const override {
    if (!exporter_) return std::nullopt;
    return exporter_->endpoint();
  }

 private:
  void serve(const std::string& address, int port) {
    exporter_ = Exporter::start(address, port, [this] { return registry_.page(); });
    if (exporter_) return;
    spdlog::warn(
        "no metrics endpoint on this rank: none of the {} ports from {} on of {} could be opened; "
        "training goes on. Give metrics.port another value to have one",
        ListenSocket::kMaxPortTries, port, address);
  }

  MetricsRegistry registry_;
  std::optional<RunLog> log_;
  std::unique_ptr<Exporter> exporter_;  // last: its thread reads the registry
};

}  // namespace

std::unique_ptr<Metrics> Metrics::start(const MetricsOptions& options) {
  return std::make_unique<RunMetrics>(options);
}

}  // namespace packtrain
