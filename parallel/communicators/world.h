// The ranks of this run: this process's rank, and communicators to the others. The main interface
// of `parallel/`.
#pragma once

#include <memory>
#include <string>

#include "framework/core/backend.h"
#include "parallel/communicators/communicator.h"

namespace packtrain {

const char* name_of(Backend backend);  // as in the configuration

// Owns the process's membership in the job: MPI_Init_thread .. MPI_Finalize under mpirun, TCP
// connections under another launcher. A process has exactly one. It is created first and destroyed
// last, after every communicator.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The rank among the ranks of this host. Ranks of one machine with different NCCL_HOSTID count as
  // ranks of different hosts, as in NCCL.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual const std::string& host() const = 0;
  // The CPU backend of this world: that of control().
  virtual Backend on_cpu() const = 0;
  // Collectives in host memory for control messages (mpi, tcp, or local for one rank).
  virtual Communicator& control() = 0;
  // Collective. A new communicator over all ranks for device memory. kNccl needs the CUDA device to
  // be selected before the first call.
  virtual std::unique_ptr<Communicator> connect(Backend backend,
                                                const CommunicatorOptions& options) = 0;
  std::unique_ptr<Communicator> connect(Backend backend) { return connect(backend, {}); }
  // Reports this rank's failure on standard error and ends all processes of the job with
  // `exit_code`. When every rank fails with the same text within two seconds it is printed once,
  // else each failing rank's text is printed with its rank. Does not return.
  [[noreturn]] virtual void fail(const std::string& text, int exit_code) = 0;
};

// Joins the job. It uses MPI when an MPI launcher is seen (OMPI_COMM_WORLD_SIZE, PMI_SIZE or
// PMIX_RANK in the environment), and TCP when another launcher started several processes
// (tcp/job_location.h). Otherwise the world has one rank. Throws Error(kDevice) when ranks cannot
// find each other, so that several one-rank jobs never run in place of one job.
std::unique_ptr<World> join_world();

}  // namespace packtrain
