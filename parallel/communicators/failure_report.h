// The report of a failing rank, and one message from the reports of several ranks.
#pragma once

#include <map>
#include <string>

namespace packtrain {

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
