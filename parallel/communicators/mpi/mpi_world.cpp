#include "parallel/communicators/mpi/mpi_world.h"

#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <utility>

#include "framework/core/error.h"
#include "parallel/communicators/collectives.h"
#include "parallel/communicators/host_name.h"
#include "parallel/communicators/mpi/check.h"
#include "parallel/communicators/mpi/collective_failure.h"
#include "parallel/communicators/mpi/library.h"
#include "parallel/communicators/mpi/mpi_communicator.h"
#include "parallel/communicators/nccl/nccl_communicator.h"

namespace packtrain {
namespace {

MPI_Comm duplicate_world() {
  MPI_Comm comm = mpi().comm_null;
  PACKTRAIN_MPI_CHECK(mpi().comm_dup(mpi().comm_world, &comm));
  return comm;
}

class MpiWorld final : public World {
 public:
  MpiWorld() : host_(host_name()) {
    PACKTRAIN_MPI_CHECK(mpi().comm_set_errhandler(mpi().comm_world, mpi().errors_return));
    failures_ = duplicate_world();
    control_ = make_mpi_communicator(duplicate_world());
    count_ranks_of_host();
  }
  ~MpiWorld() override {
    control_.reset();
    // Finalizing waits for all ranks, so skip it while an exception ends this rank alone.
    if (std::uncaught_exceptions() > 0) return;
    mpi().comm_free(&failures_);
    mpi().finalize();
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  const std::string& host() const override { return host_; }
  Backend on_cpu() const override { return Backend::kMpi; }
  Communicator& control() override { return *control_; }

  std::unique_ptr<Communicator> connect(Backend backend,
                                        const CommunicatorOptions& options) override {
    if (backend == Backend::kNccl) return make_nccl_communicator(*control_, options);
    if (backend == Backend::kLocal && size() > 1) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("the local backend was asked to join {} ranks", size()));
    }
    return make_mpi_communicator(duplicate_world());
  }

  [[noreturn]] void fail(const std::string& text, int exit_code) override {
    fail_on_all_ranks(failures_, {exit_code, text}, host_);
  }

 private:
  void count_ranks_of_host() {
    host_ = gather_hosts(*control_)[static_cast<std::size_t>(rank())];
    MPI_Comm machine = mpi().comm_null;
    PACKTRAIN_MPI_CHECK(mpi().comm_split_type(mpi().comm_world, MPI_COMM_TYPE_SHARED, 0,
                                              mpi().info_null, &machine));
    const std::unique_ptr<Communicator> ranks = make_mpi_communicator(machine);
    const std::vector<std::string> hosts = all_gather_texts(host_, *ranks);
    local_size_ = 0;
    for (int r = 0; r < ranks->size(); ++r) {
      if (hosts[static_cast<std::size_t>(r)] != host_) continue;
      if (r < ranks->rank()) ++local_rank_;
      ++local_size_;
    }
  }

  std::string host_;
  int local_rank_ = 0;
  int local_size_ = 1;
  MPI_Comm failures_ = mpi().comm_null;  // used only by the failing thread
  std::unique_ptr<Communicator> control_;
};

void require_thread_support(int provided) {
  if (provided >= MPI_THREAD_MULTIPLE) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("MPI offers thread level {}, wanted {} (MPI_THREAD_MULTIPLE)", provided,
                          int{MPI_THREAD_MULTIPLE}),
              "Use an Open MPI that was built with threads (Debian's and Ubuntu's are).");
}

void require_whole_job() {
  const char* launched = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (launched == nullptr) launched = std::getenv("PMI_SIZE");
  if (launched == nullptr) return;
  int joined = 0;
  PACKTRAIN_MPI_CHECK(mpi().comm_size(mpi().comm_world, &joined));
  if (std::to_string(joined) == launched) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("the launcher started {} processes, but MPI joined {}", launched, joined),
              "Start with the mpirun of the Open MPI that packtrain was built with.");
}

}  // namespace

std::unique_ptr<World> make_mpi_world() {
  int initialized = 0;
  PACKTRAIN_MPI_CHECK(mpi().initialized(&initialized));
  if (initialized != 0) throw Error(ErrorCategory::kInternal, "the world was joined twice");
  int provided = 0;
  PACKTRAIN_MPI_CHECK(mpi().init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  require_thread_support(provided);
  require_whole_job();
  return std::make_unique<MpiWorld>();
}

}  // namespace packtrain
