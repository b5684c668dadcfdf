#include "framework/metrics/metrics_file.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/logging.h"
#include "framework/metrics/last_lines.h"

namespace packtrain {
namespace {

using Keeps = std::function<bool(const nlohmann::json& line, std::int64_t step)>;

// Steps and evaluations are written in the order of their steps, but for a few that are known late.
// Each process first removes the later ones. Results of commands come at any time.
constexpr std::int64_t kMostLateSteps = 16;

// The lines that are cut, found from the end of the file.
class Cut {
 public:
  Cut(const Keeps& keeps, std::int64_t last_step) : keeps_(keeps), last_step_(last_step) {}

  // False when no line before this one can be cut.
  bool visit(std::string_view line, std::size_t begin) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const std::optional<std::int64_t> step = line.ends_with('\n') ? step_of(object) : std::nullopt;
    if (!step || !keeps_(object, *step)) {
      ++num_cut_;
      first_cut_ = begin;
      num_moved_ = kept_.size();
      return true;
    }
    kept_.emplace_back(line);
    return *step > last_step_ - kMostLateSteps || object.contains("evaluate_command");
  }

  std::int64_t num_cut() const { return num_cut_; }
  std::size_t first_cut() const { return first_cut_; }
  // The kept lines after the first one that is cut.
  std::string moved() const {
    std::string text;
    for (std::size_t i = num_moved_; i > 0; --i) text += kept_[i - 1];
    return text;
  }

 private:
  static std::optional<std::int64_t> step_of(const nlohmann::json& line) {
    if (!line.is_object()) return std::nullopt;
    const auto step = line.find("step");
    if (step == line.end() || !step->is_number_integer()) return std::nullopt;
    return step->get<std::int64_t>();
  }

  const Keeps& keeps_;
  std::int64_t last_step_;
  std::vector<std::string> kept_ = {};  // the last one first
  std::size_t num_moved_ = 0;
  std::size_t first_cut_ = 0;
  std::int64_t num_cut_ = 0;
};

// Returns the number of removed lines. An incomplete last line is always removed.
std::int64_t cut_lines(const std::string& path, std::int64_t last_step, const Keeps& keeps) {
  std::error_code unreadable;  // opening the file will report it
  if (!std::filesystem::exists(path, unreadable)) return 0;
  Cut cut(keeps, last_step);
  visit_lines_backwards(
      path, ErrorCategory::kConfig,
      [&](std::string_view line, std::size_t begin) { return cut.visit(line, begin); });
  if (cut.num_cut() > 0) replace_end(path, cut.first_cut(), cut.moved(), ErrorCategory::kConfig);
  return cut.num_cut();
}

void cut_after_step(const std::string& path, std::int64_t last_step) {
  const auto num_cut = cut_lines(
      path, last_step,
      [&](const nlohmann::json& /*line*/, std::int64_t step) { return step <= last_step; });
  if (num_cut == 0) return;
  log_info("{}: cut {} line(s) that an earlier process wrote after step {}", path, num_cut,
           last_step);
}

// The user decides where the file lies.
template <class Work>
auto with_advice(const std::string& path, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.category(), error.message(),
                path +
                    " must be a file that this user can read and write: repair it, or free "
                    "space on its disk, or choose another run.output.");
  }
}

}  // namespace

void truncate_after_step(const std::string& path, std::int64_t last_step) {
  with_advice(path, [&] { cut_after_step(path, last_step); });
}

void cut_evaluation_of(const std::string& path, std::int64_t step) {
  with_advice(path, [&] {
    cut_after_step(path, step);
    cut_lines(path, step, [&](const nlohmann::json& line, std::int64_t of_step) {
      return of_step != step || !line.contains("validation_loss");
    });
  });
}

namespace {

constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20U;

std::int64_t count_lines(std::string_view text) {
  return std::ranges::count(text, '\n');
}

OutputFile open_after_step(const std::string& path, std::int64_t first_step) {
  truncate_after_step(path, first_step);
  return with_advice(
      path, [&] { return OutputFile(path, OutputFile::Mode::kAppend, ErrorCategory::kConfig); });
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::int64_t first_step)
    : path_(path), file_(open_after_step(path, first_step)) {}

MetricsFile::~MetricsFile() {
  if (!waiting_.empty()) write_waiting();
  if (num_unwritten_lines() == 0) return;
  log_warning("{}: {} line(s) of this process are not in the file", path_, num_unwritten_lines());
}

void MetricsFile::append(std::string_view line) {
  std::string& text = waiting_.emplace_back(line);
  text += '\n';
  num_waiting_bytes_ += text.size();
  num_waiting_ += count_lines(text);
  write_waiting();
  if (num_waiting_bytes_ > kMaxWaitingBytes) lose_oldest();
}

void MetricsFile::write_waiting() {
  try {
    remove_incomplete_line();
    while (!waiting_.empty()) {
      complete_bytes_ = file_.size();
      file_.write(waiting_.front());
      complete_bytes_.reset();
      drop_front();
    }
    if (std::exchange(has_failed_, false)) log_info("{}: can be written again", path_);
  } catch (const Error& error) {
    if (!std::exchange(has_failed_, true)) {
      log_warning(
          "{}: training continues, and lines of this file wait in memory. Free space on its disk, "
          "or make it writable; the next line tries again",
          error.message());
    }
  }
  try {
    remove_incomplete_line();
  } catch (const Error&) {  // the next write tries again
  }
}

void MetricsFile::remove_incomplete_line() {
  if (!complete_bytes_) return;
  if (file_.size() > *complete_bytes_) file_.truncate(*complete_bytes_);
  complete_bytes_.reset();
}

void MetricsFile::drop_front() {
  num_waiting_bytes_ -= waiting_.front().size();
  num_waiting_ -= count_lines(waiting_.front());
  waiting_.pop_front();
}

void MetricsFile::lose_oldest() {
  while (num_waiting_bytes_ > kMaxWaitingBytes) {
    num_lost_ += count_lines(waiting_.front());
    drop_front();
  }
}

}  // namespace packtrain
