#include "parallel/communicators/mpi/mpi_communicator.h"

#include <atomic>
#include <exception>
#include <memory>
#include <string>

#include "parallel/communicators/collective_log.h"
#include "parallel/communicators/host_communicator.h"
#include "parallel/communicators/mpi/check.h"
#include "parallel/communicators/mpi/library.h"
#include "parallel/communicators/mpi/request_set.h"

namespace packtrain {
namespace {

int rank_in(MPI_Comm comm) {
  int rank = 0;
  PACKTRAIN_MPI_CHECK(mpi().comm_rank(comm, &rank));
  return rank;
}

int size_of_group(MPI_Comm comm) {
  int size = 1;
  PACKTRAIN_MPI_CHECK(mpi().comm_size(comm, &size));
  return size;
}

class MpiCommunicator final : public HostCommunicator {
 public:
  explicit MpiCommunicator(MPI_Comm comm)
      : HostCommunicator(rank_in(comm), size_of_group(comm)), comm_(comm) {
    PACKTRAIN_MPI_CHECK(mpi().comm_set_errhandler(comm_, mpi().errors_return));
  }
  ~MpiCommunicator() override {
    // Freeing is collective, so skip it while an exception ends this rank alone.
    if (!aborted_ && std::uncaught_exceptions() == 0) mpi().comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  void barrier() override {
    const CollectiveScope scope("barrier", 0, DataType::kUInt8);
    MPI_Request request = mpi().request_null;
    PACKTRAIN_MPI_CHECK(mpi().ibarrier(comm_, &request));
    RequestSet requests(comm_, aborted_);
    requests.add(request);
    requests.wait();
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    MPI_Comm part = mpi().comm_null;
    PACKTRAIN_MPI_CHECK(mpi().comm_split(comm_, color, key, &part));
    return make_mpi_communicator(part);
  }
  std::string path() const override { return "mpi"; }
  // Frees this process's own threads. MPI can free other ranks only by ending the job.
  void abort() override { aborted_ = true; }

 private:
  std::unique_ptr<MessageSet> messages() override {
    return std::make_unique<RequestSet>(comm_, aborted_);
  }

  MPI_Comm comm_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm) {
  return std::make_unique<MpiCommunicator>(comm);
}

}  // namespace packtrain
