#include "parallel/communicators/local/local_world.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "parallel/communicators/host_name.h"
#include "parallel/communicators/local/local_communicator.h"
#include "parallel/communicators/nccl/nccl_communicator.h"

namespace packtrain {
namespace {

class LocalWorld final : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  const std::string& host() const override { return host_; }
  Backend on_cpu() const override { return Backend::kLocal; }
  Communicator& control() override { return *control_; }

  std::unique_ptr<Communicator> connect(Backend backend,
                                        const CommunicatorOptions& options) override {
    if (backend == Backend::kNccl) return make_nccl_communicator(*control_, options);
    return make_local_communicator();
  }

  [[noreturn]] void fail(const std::string& text, int exit_code) override {
    std::fprintf(stderr, "%s\n", text.c_str());
    std::fflush(nullptr);
    std::_Exit(exit_code);  // runs no destructors, as MPI_Abort: threads may be stuck
  }

 private:
  std::string host_ = host_name();
  std::unique_ptr<Communicator> control_ = make_local_communicator();
};

}  // namespace

std::unique_ptr<World> make_local_world() {
  return std::make_unique<LocalWorld>();
}

}  // namespace packtrain
