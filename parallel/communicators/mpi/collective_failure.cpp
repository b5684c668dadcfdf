#include "parallel/communicators/mpi/collective_failure.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "parallel/communicators/mpi/library.h"
#include "parallel/communicators/mpi/request_set.h"

// This file ignores MPI's status codes, because the job ends in any case.
namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReportTag = 1;
constexpr int kTakenTag = 2;

[[noreturn]] void abort_job(MPI_Comm comm, int exit_code) {
  // Gives mpirun time to forward output, and other ranks time to print.
  std::this_thread::sleep_for(kPrintTime);
  mpi().abort(comm, exit_code);
  std::_Exit(exit_code);
}

// Rank 0: collects the reports of the ranks that fail within kReportTime, with its own.
std::map<int, ReportOfRank> collect_reports(MPI_Comm comm, int size, ReportOfRank own) {
  std::map<int, ReportOfRank> reports;
  reports.emplace(0, std::move(own));
  const auto deadline = Clock::now() + kReportTime;
  BackoffWait backoff_wait;
  while (static_cast<int>(reports.size()) < size && Clock::now() < deadline) {
    int there = 0;
    MPI_Status status;
    mpi().iprobe(MPI_ANY_SOURCE, kReportTag, comm, &there, &status);
    if (there == 0) {
      backoff_wait();
      continue;
    }
    int length = 0;
    mpi().get_count(&status, mpi().char_type, &length);
    std::string message(static_cast<std::size_t>(length), '\0');
    mpi().recv(message.data(), length, mpi().char_type, status.MPI_SOURCE, kReportTag, comm,
               MPI_STATUS_IGNORE);
    mpi().send(nullptr, 0, mpi().char_type, status.MPI_SOURCE, kTakenTag, comm);
    reports.emplace(status.MPI_SOURCE, decode_report(message));
  }
  return reports;
}

// Other ranks: returns true when rank 0 received the report within kReportTime.
bool hand_over_report(MPI_Comm comm, const std::string& message) {
  MPI_Request sent = mpi().request_null;
  MPI_Request taken = mpi().request_null;
  mpi().irecv(nullptr, 0, mpi().char_type, 0, kTakenTag, comm, &taken);
  mpi().isend(message.data(), static_cast<int>(message.size()), mpi().char_type, 0, kReportTag,
              comm, &sent);
  const auto deadline = Clock::now() + kReportTime;
  BackoffWait backoff_wait;
  int done = 0;
  while (done == 0 && Clock::now() < deadline) {
    mpi().test(&taken, &done, MPI_STATUS_IGNORE);
    if (done == 0) backoff_wait();
  }
  return done != 0;
}

}  // namespace

void fail_on_all_ranks(MPI_Comm comm, const FailureReport& report, const std::string& host) {
  int rank = 0;
  int size = 1;
  mpi().comm_rank(comm, &rank);
  mpi().comm_size(comm, &size);
  if (rank == 0) {
    abort_job(comm, print_reports(collect_reports(comm, size, {report, host}), size));
  }
  const std::string message = encode({report, host});
  if (hand_over_report(comm, message)) std::this_thread::sleep_for(kEndTimeout);
  print_with_rank(rank, {report, host});
  abort_job(comm, report.exit_code);
}

}  // namespace packtrain
