#include "parallel/mpi/joint_failure.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "parallel/mpi/request_set.h"

// MPI's status codes are not looked at in this file: the job ends whatever they say.
namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kAbortPatience = std::chrono::seconds(10);
constexpr auto kFlush = std::chrono::milliseconds(200);
constexpr int kReportTag = 1;
constexpr int kTakenTag = 2;

std::string encode(const FailureReport& report, const std::string& host) {
  return fmt::format("{}\n{}\n{}", report.exit_code, host, report.text);
}

struct ReceivedReport {
  FailureReport report;
  std::string host;
};

ReceivedReport decode(const std::string& message) {
  const std::size_t first = message.find('\n');
  const std::size_t second = message.find('\n', first + 1);
  return {{static_cast<int>(std::strtol(message.c_str(), nullptr, 10)), message.substr(second + 1)},
          message.substr(first + 1, second - first - 1)};
}

void print(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(nullptr);
}

void print_with_rank(int rank, const std::string& host, const std::string& text) {
  print(fmt::format("[rank {} on {}] {}", rank, host, text));
}

[[noreturn]] void abort_job(MPI_Comm comm, int exit_code) {
  std::this_thread::sleep_for(kFlush);  // mpirun forwards what was printed, other ranks print
  MPI_Abort(comm, exit_code);
  std::_Exit(exit_code);
}

// Rank 0: the reports of the ranks that fail within our patience, itself included.
std::map<int, ReceivedReport> collect_reports(MPI_Comm comm, int size, ReceivedReport own) {
  std::map<int, ReceivedReport> reports;
  reports.emplace(0, std::move(own));
  const auto deadline = Clock::now() + kPatience;
  PoliteWait polite_wait;
  while (static_cast<int>(reports.size()) < size && Clock::now() < deadline) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kReportTag, comm, &there, &status);
    if (there == 0) {
      polite_wait();
      continue;
    }
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string message(static_cast<std::size_t>(length), '\0');
    MPI_Recv(message.data(), length, MPI_CHAR, status.MPI_SOURCE, kReportTag, comm,
             MPI_STATUS_IGNORE);
    MPI_Send(nullptr, 0, MPI_CHAR, status.MPI_SOURCE, kTakenTag, comm);
    reports.emplace(status.MPI_SOURCE, decode(message));
  }
  return reports;
}

// Prints and returns the exit code of the job.
int print_reports(const std::map<int, ReceivedReport>& reports, int size) {
  const FailureReport& first = reports.at(0).report;
  bool alike = static_cast<int>(reports.size()) == size;
  for (const auto& [rank, received] : reports) alike = alike && received.report == first;
  if (alike) {
    print(first.text);
    return first.exit_code;
  }
  for (const auto& [rank, received] : reports) {
    print_with_rank(rank, received.host, received.report.text);
  }
  return first.exit_code;
}

// Another rank than 0: whether rank 0 took the report over within our patience.
bool hand_over_report(MPI_Comm comm, const std::string& message) {
  MPI_Request sent = MPI_REQUEST_NULL;
  MPI_Request taken = MPI_REQUEST_NULL;
  MPI_Irecv(nullptr, 0, MPI_CHAR, 0, kTakenTag, comm, &taken);
  MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_CHAR, 0, kReportTag, comm, &sent);
  const auto deadline = Clock::now() + kPatience;
  PoliteWait polite_wait;
  int done = 0;
  while (done == 0 && Clock::now() < deadline) {
    MPI_Test(&taken, &done, MPI_STATUS_IGNORE);
    if (done == 0) polite_wait();
  }
  return done != 0;
}

}  // namespace

void fail_jointly(MPI_Comm comm, const FailureReport& report, const std::string& host) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (rank == 0) {
    abort_job(comm, print_reports(collect_reports(comm, size, {report, host}), size));
  }
  const std::string message = encode(report, host);
  if (hand_over_report(comm, message)) std::this_thread::sleep_for(kAbortPatience);
  print_with_rank(rank, host, report.text);
  abort_job(comm, report.exit_code);
}

}  // namespace packtrain
