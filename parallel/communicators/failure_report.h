// The report of a failing rank, and one message from the reports of several ranks.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace packtrain {

// How long rank 0 collects the reports of other ranks after the first one.
inline constexpr auto kReportTime = std::chrono::seconds(2);
// How long a rank with a report waits for rank 0 to end the job. Then it ends by itself.
inline constexpr auto kEndTimeout = std::chrono::seconds(10);
// Time for other threads, ranks and the launcher to print, before a process ends.
inline constexpr auto kPrintTime = std::chrono::milliseconds(200);

struct FailureReport {
  int exit_code = 1;
  std::string text;
  bool operator==(const FailureReport&) const = default;
};

struct ReportOfRank {
  FailureReport report;
  std::string host;
};

std::string encode(const ReportOfRank& report);
ReportOfRank decode_report(const std::string& message);

// Prints to standard error, with rank and host in front.
void print_with_rank(int rank, const ReportOfRank& report);
// Prints the text once when all `size` ranks report the same. Else prints each report with its rank
// and host. Returns the job's exit code: that of the lowest rank. `reports` must not be empty.
int print_reports(const std::map<int, ReportOfRank>& reports, int size);

}  // namespace packtrain
