// The ranks of this run: who we are, and the way to reach the others. One way in to `parallel/`.
#pragma once

#include <memory>
#include <string>

#include "parallel/communicator.h"

namespace packtrain {

enum class Backend { kLocal, kMpi, kTcp, kNccl };
const char* name_of(Backend backend);  // as in the configuration

// Owns the process's membership in the job (MPI_Init_thread .. MPI_Finalize when started by
// mpirun; connections over TCP when started by another launcher). Exactly one may exist, made first
// and destroyed last, after every communicator.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Among the ranks of this host. Ranks of one machine that differ in NCCL_HOSTID count as ranks of
  // different hosts, as they do for NCCL.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual const std::string& host() const = 0;
  // What CPU ranks talk by here: the backend of control().
  virtual Backend on_cpu() const = 0;
  // Host memory collectives for agreement and counters (mpi, tcp, or local for one rank).
  virtual Communicator& control() = 0;
  // A new communicator over all ranks for device memory. Collective. kNccl needs the CUDA device
  // to be chosen before the first call.
  virtual std::unique_ptr<Communicator> connect(Backend backend,
                                                const CommunicatorOptions& options) = 0;
  std::unique_ptr<Communicator> connect(Backend backend) { return connect(backend, {}); }
  // Reports this rank's failure on standard error and ends all processes of the job with
  // `exit_code`. When every rank fails with the same text within two seconds it is printed once,
  // else each failing rank's text is printed with its rank. Does not return.
  [[noreturn]] virtual void fail(const std::string& text, int exit_code) = 0;
};

// Joins the job: over MPI where an MPI launcher is seen (OMPI_COMM_WORLD_SIZE, PMI_SIZE or
// PMIX_RANK in the environment), over TCP where another launcher started several processes
// (tcp/job_location.h), else a world of one rank. Throws Error(kDevice) when ranks cannot find each
// other: several one-rank jobs must never pass for one.
std::unique_ptr<World> join_world();

}  // namespace packtrain
