#include "framework/metrics/metrics.h"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "framework/core/logging.h"
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

// The output of rank 0.
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

  void command(const CommandRecord& record) {
    file_.append(command_json_line(record));
    progress_.command(record);
  }

  std::int64_t num_unwritten_lines() const { return file_.num_unwritten_lines(); }

 private:
  MetricsFile file_;
  Progress progress_;
};

class RunMetrics final : public Metrics {
 public:
  explicit RunMetrics(const MetricsOptions& options)
      : registry_(options), trouble_(options.trouble) {
    if (options.serve) serve(options.address, options.port);
    if (options.rank == 0) log_.emplace(options);
  }

  void step(const StepRecord& own) override {
    StepRecord record = own;
    if (log_) record.num_unwritten_lines += log_->num_unwritten_lines();
    registry_.step(record);
    if (log_) log_->step(record);
  }

  void evaluation(const EvaluationRecord& record) override {
    registry_.evaluation(record);
    if (log_) log_->evaluation(record);
  }

  void command(const CommandRecord& record) override {
    registry_.command(record);
    if (log_) log_->command(record);
  }

  void end(RunState state, const std::string& reason, double last_scrape_timeout_s) override {
    registry_.set_state(state);
    if (state == RunState::kFailed) {
      const std::lock_guard lock(mutex_);
      failure_ = reason;
    }
    log_.reset();  // writes the held-back line of the last step before the wait
    if (!exporter_) return;
    if (state == RunState::kFailed) {
      std::this_thread::sleep_for(std::chrono::duration<double>(last_scrape_timeout_s));
    } else {
      exporter_->wait_for_scrape(last_scrape_timeout_s);
    }
  }

  std::optional<std::string> endpoint() const override {
    if (!exporter_) return std::nullopt;
    return exporter_->endpoint();
  }

 private:
  void serve(const std::string& address, int port) {
    if (port <= ListenSocket::kMaxPort) {  // a rank adds its number on the host to metrics.port
      exporter_ = Exporter::start(
          address, port, [this] { return registry_.page(); }, [this] { return trouble(); });
    }
    if (exporter_) return;
    log_warning(
        "no metrics endpoint on this rank: none of the {} ports from {} on of {} could be opened; "
        "training continues. Give metrics.port another value to have one",
        ListenSocket::kMaxPortTries, port, address);
  }

  std::string trouble() const {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) return failure_;
    }
    return trouble_ ? trouble_() : "";
  }

  MetricsRegistry registry_;
  std::function<std::string()> trouble_;
  mutable std::mutex mutex_;
  std::string failure_;
  std::optional<RunLog> log_;
  std::unique_ptr<Exporter> exporter_;  // last, because its thread reads the members above
};

}  // namespace

std::unique_ptr<Metrics> Metrics::start(const MetricsOptions& options) {
  return std::make_unique<RunMetrics>(options);
}

}  // namespace packtrain
