#include "parallel/communicators/mpi/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr const char* kSoname = "libmpi.so.40";  // of Open MPI 3, 4 and 5
constexpr const char* kVariable = "PACKTRAIN_MPI_LIBRARY";

std::string library_file() {
  const char* const chosen = std::getenv(kVariable);
  return chosen == nullptr || chosen[0] == '\0' ? kSoname : chosen;
}

[[noreturn]] void throw_unusable(const std::string& file, const std::string& reason) {
  throw Error(
      ErrorCategory::kDevice,
      fmt::format("an MPI launcher started this process, but {} cannot be used: {}", file, reason),
      fmt::format("Install Open MPI 4.1 (launch/setup does), or set {} to the {} of the "
                  "mpirun that started this process. One process, and ranks that torchrun "
                  "starts, need no MPI.",
                  kVariable, kSoname));
}

// An open library and the symbols in it.
class OpenedLibrary {
 public:
  explicit OpenedLibrary(std::string file) : file_(std::move(file)) {
    // Open MPI's plug-ins look their symbols up globally. The library stays open until the process
    // ends, because its threads may run until then.
    handle_ = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle_ == nullptr) throw_unusable(file_, ::dlerror());
  }

  template <typename Pointer>
  void find(const char* symbol, Pointer& place) const {
    void* const address = ::dlsym(handle_, symbol);
    if (address == nullptr) throw_unusable(file_, fmt::format("it has no {}", symbol));
    place = reinterpret_cast<Pointer>(address);
  }

 private:
  std::string file_;
  void* handle_ = nullptr;
};

MpiLibrary open_library() {
  const OpenedLibrary opened(library_file());
  MpiLibrary library;
  opened.find("MPI_Abort", library.abort);
  opened.find("MPI_Cancel", library.cancel);
  opened.find("MPI_Comm_dup", library.comm_dup);
  opened.find("MPI_Comm_free", library.comm_free);
  opened.find("MPI_Comm_rank", library.comm_rank);
  opened.find("MPI_Comm_set_errhandler", library.comm_set_errhandler);
  opened.find("MPI_Comm_size", library.comm_size);
  opened.find("MPI_Comm_split", library.comm_split);
  opened.find("MPI_Comm_split_type", library.comm_split_type);
  opened.find("MPI_Error_string", library.error_string);
  opened.find("MPI_Finalize", library.finalize);
  opened.find("MPI_Get_count", library.get_count);
  opened.find("MPI_Ibarrier", library.ibarrier);
  opened.find("MPI_Init_thread", library.init_thread);
  opened.find("MPI_Initialized", library.initialized);
  opened.find("MPI_Iprobe", library.iprobe);
  opened.find("MPI_Irecv", library.irecv);
  opened.find("MPI_Isend", library.isend);
  opened.find("MPI_Recv", library.recv);
  opened.find("MPI_Request_free", library.request_free);
  opened.find("MPI_Send", library.send);
  opened.find("MPI_Test", library.test);
  opened.find("MPI_Testall", library.testall);
  opened.find("ompi_mpi_comm_null", library.comm_null);
  opened.find("ompi_mpi_comm_world", library.comm_world);
  opened.find("ompi_mpi_byte", library.byte_type);
  opened.find("ompi_mpi_char", library.char_type);
  opened.find("ompi_mpi_errors_return", library.errors_return);
  opened.find("ompi_mpi_info_null", library.info_null);
  opened.find("ompi_request_null", library.request_null);
  return library;
}

}  // namespace

const MpiLibrary& mpi() {
  static const MpiLibrary library = open_library();
  return library;
}

}  // namespace packtrain
