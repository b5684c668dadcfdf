#include "parallel/communicators/tcp/job_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr int kChildren = 32;  // of a rank in the tree
constexpr auto kMessagePatience = std::chrono::seconds(5);
constexpr const char* kChannel = "watch";

// The first letter of a message.
constexpr char kReport = 'R';   // followed by a rank, a newline, its report
constexpr char kEnd = 'E';      // followed by the job's exit code
constexpr char kGoodbye = 'G';  // the sender leaves normally

int number_behind_letter(const std::string& message) {
  return static_cast<int>(std::strtol(message.c_str() + 1, nullptr, 10));
}

}  // namespace

JobWatch::JobWatch(ConnectionManager& connection_manager, const std::string& host)
    : connection_manager_(connection_manager),
      host_(host),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw Error(ErrorCategory::kDevice, "eventfd failed: no file descriptor is left");
  link(connection_manager);
  thread_ = std::thread([this] { watch(); });
}

JobWatch::~JobWatch() {
  closing_ = true;
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  ::close(wake_);
}

void JobWatch::link(ConnectionManager& connection_manager) {
  const std::atomic<bool> never = false;
  const int own = connection_manager.rank();
  const auto connect = [&](int rank, bool is_parent) {
    links_.push_back(
        {rank, connection_manager.connect(kChannel, rank, never, kStartPatience), is_parent});
  };
  if (own > 0) connect((own - 1) / kChildren, true);
  for (int child = own * kChildren + 1; child <= own * kChildren + kChildren; ++child) {
    if (child < connection_manager.size()) connect(child, false);
  }
}

void JobWatch::fail(const FailureReport& report) {
  {
    const std::lock_guard lock(mutex_);
    if (!own_report_) own_report_ = report;
  }
  eventfd_write(wake_, 1);
  std::this_thread::sleep_for(kEndTimeout);  // the watching thread ends the process earlier
  print_with_rank(connection_manager_.rank(), {report, host_});
  std::_Exit(report.exit_code);
}

void JobWatch::watch() {
  while (!closing_) {
    wait_for_event();
    forward_own_report();
    finish_if_all_reported();
  }
  if (leaving_) send_shutdown();
}

void JobWatch::wait_for_event() {
  std::vector<pollfd> entries = {{wake_, POLLIN, 0}};
  // A link that is done keeps its index and is no longer polled.
  for (const Link& link : links_) {
    entries.push_back({link.done ? -1 : link.socket.descriptor(), POLLIN, 0});
  }
  int limit_ms = -1;
  if (deadline_) {
    const auto left = *deadline_ - Clock::now();
    limit_ms = 1 + static_cast<int>(std::max<std::int64_t>(
                       std::chrono::duration_cast<std::chrono::milliseconds>(left).count(), 0));
  }
  if (poll(entries.data(), entries.size(), limit_ms) <= 0) return;
  eventfd_t taken = 0;
  eventfd_read(wake_, &taken);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (entries[i + 1].revents != 0) read(links_[i]);
  }
}

void JobWatch::read(Link& link) {
  const std::optional<std::string> message = receive_text(link.socket, kMessagePatience);
  if (!message || message->empty()) return lose(link);
  switch (message->front()) {
    case kReport: {
      const std::size_t line = message->find('\n');
      return take_report(number_behind_letter(*message), message->substr(line + 1));
    }
    case kEnd:
      end_job(number_behind_letter(*message));
    default:
      link.done = true;
  }
}

// Messages that the process sent before it ended have already been read.
void JobWatch::lose(Link& link) {
  link.done = true;
  if (leaving_ || closing_) return;
  constexpr int kCode = static_cast<int>(ErrorCategory::kDevice);
  if (!link.is_parent) {
    ReportOfRank report;
    report.report.exit_code = kCode;
    report.report.text = fmt::format(
        "error: this rank ended without a word: it was killed, or its host is gone ({} "
        "lost the connection)\n  See its host's log (out of memory?); started again, "
        "the run resumes from its newest checkpoint.",
        connection_manager_.name_of(connection_manager_.rank()));
    report.host = connection_manager_.host_of(link.rank);
    return take_report(link.rank, encode(report));
  }
  FailureReport report;
  report.exit_code = kCode;
  report.text = fmt::format(
      "error: {}, which watches over the job for this rank, ended without a word: it "
      "was killed, or its host is gone\n  See its host's log; started again, the run "
      "resumes from its newest checkpoint.",
      connection_manager_.name_of(link.rank));
  print_with_rank(connection_manager_.rank(), {report, host_});
  end_job(kCode);
}

void JobWatch::forward_own_report() {
  std::optional<FailureReport> report;
  {
    const std::lock_guard lock(mutex_);
    report = std::exchange(own_report_, std::nullopt);
  }
  if (report) take_report(connection_manager_.rank(), encode(ReportOfRank{*report, host_}));
}

void JobWatch::take_report(int rank, const std::string& message) {
  if (connection_manager_.rank() == 0) {
    reports_.emplace(rank, decode_report(message));
    if (!deadline_) deadline_ = Clock::now() + kReportTime;
    return;
  }
  for (Link& link : links_) {
    if (!link.is_parent) continue;
    send_text(link.socket, fmt::format("{}{}\n{}", kReport, rank, message), kMessagePatience);
  }
}

void JobWatch::finish_if_all_reported() {
  if (!deadline_) return;
  const bool all = static_cast<int>(reports_.size()) == connection_manager_.size();
  if (!all && Clock::now() < *deadline_) return;
  end_job(print_reports(reports_, connection_manager_.size()));
}

void JobWatch::send_to_children(const std::string& message) {
  for (const Link& link : links_) {
    if (!link.is_parent && !link.done) send_text(link.socket, message, kMessagePatience);
  }
}

void JobWatch::end_job(int exit_code) {
  send_to_children(fmt::format("{}{}", kEnd, exit_code));
  std::this_thread::sleep_for(kPrintTime);  // gives other threads time to print
  std::_Exit(exit_code);
}

// Closes a link only after its other end has said goodbye, too. Closing a socket with unread data
// makes the other end lose data that it has not read.
void JobWatch::send_shutdown() {
  for (const Link& link : links_) {
    send_text(link.socket, std::string(1, kGoodbye), kMessagePatience);
    ::shutdown(link.socket.descriptor(), SHUT_WR);
  }
  for (const Link& link : links_) {
    while (receive_text(link.socket, kMessagePatience)) continue;
  }
}

}  // namespace packtrain
