// The functions and handles of libmpi that are used here. libmpi is opened at run time. A process
// that no MPI launcher started needs none. The build needs only mpi.h, for the types.
#pragma once

#include <mpi.h>

namespace packtrain {

// A function has its MPI name without MPI_, in lower case. The handles are addresses inside libmpi,
// as mpi.h of Open MPI defines them.
struct MpiLibrary {
  decltype(&MPI_Abort) abort = nullptr;
  decltype(&MPI_Cancel) cancel = nullptr;
  decltype(&MPI_Comm_dup) comm_dup = nullptr;
  decltype(&MPI_Comm_free) comm_free = nullptr;
  decltype(&MPI_Comm_rank) comm_rank = nullptr;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler = nullptr;
  decltype(&MPI_Comm_size) comm_size = nullptr;
  decltype(&MPI_Comm_split) comm_split = nullptr;
  decltype(&MPI_Comm_split_type) comm_split_type = nullptr;
  decltype(&MPI_Error_string) error_string = nullptr;
  decltype(&MPI_Finalize) finalize = nullptr;
  decltype(&MPI_Get_count) get_count = nullptr;
  decltype(&MPI_Ibarrier) ibarrier = nullptr;
  decltype(&MPI_Init_thread) init_thread = nullptr;
  decltype(&MPI_Initialized) initialized = nullptr;
  decltype(&MPI_Iprobe) iprobe = nullptr;
  decltype(&MPI_Irecv) irecv = nullptr;
  decltype(&MPI_Isend) isend = nullptr;
  decltype(&MPI_Recv) recv = nullptr;
  decltype(&MPI_Request_free) request_free = nullptr;
  decltype(&MPI_Send) send = nullptr;
  decltype(&MPI_Test) test = nullptr;
  decltype(&MPI_Testall) testall = nullptr;

  MPI_Comm comm_null = nullptr;
  MPI_Comm comm_world = nullptr;
  MPI_Datatype byte_type = nullptr;
  MPI_Datatype char_type = nullptr;
  MPI_Errhandler errors_return = nullptr;
  MPI_Info info_null = nullptr;
  MPI_Request request_null = nullptr;
};

// Opens libmpi at the first call: $PACKTRAIN_MPI_LIBRARY, or else libmpi.so.40 as the dynamic
// linker finds it. Throws Error(kDevice) when it cannot be opened or lacks one of the symbols.
const MpiLibrary& mpi();

}  // namespace packtrain
