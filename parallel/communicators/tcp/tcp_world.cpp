#include "parallel/communicators/tcp/tcp_world.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "parallel/communicators/collectives.h"
#include "parallel/communicators/host_name.h"
#include "parallel/communicators/nccl/nccl_communicator.h"
#include "parallel/communicators/tcp/connection_manager.h"
#include "parallel/communicators/tcp/job_watch.h"
#include "parallel/communicators/tcp/tcp_communicator.h"

namespace packtrain {
namespace {

class TcpWorld final : public World {
 public:
  explicit TcpWorld(const JobLocation& place)
      : host_(host_name()),
        connection_manager_(place, host_),
        watch_(std::in_place, connection_manager_, host_) {
    control_ = connect_all("control");
    exchange_peers();
  }
  ~TcpWorld() override {
    // Skips waiting while an exception ends this rank alone.
    if (std::uncaught_exceptions() > 0) return;
    try {
      control_->barrier();
      watch_->leave();
    } catch (const std::exception& failure) {
      watch_->fail({static_cast<int>(ErrorCategory::kDevice), failure.what()});
    }
  }
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  int rank() const override { return connection_manager_.rank(); }
  int size() const override { return connection_manager_.size(); }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  const std::string& host() const override { return host_; }
  Backend on_cpu() const override { return Backend::kTcp; }
  Communicator& control() override { return *control_; }

  std::unique_ptr<Communicator> connect(Backend backend,
                                        const CommunicatorOptions& options) override {
    if (backend == Backend::kNccl) return make_nccl_communicator(*control_, options);
    if (backend != Backend::kTcp) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("the {} backend was asked to join {} ranks that talk over tcp",
                              name_of(backend), size()));
    }
    return connect_all(fmt::format("all-{}", num_connections_++));
  }

  [[noreturn]] void fail(const std::string& text, int exit_code) override {
    watch_->fail({exit_code, text});
  }

 private:
  std::unique_ptr<Communicator> connect_all(const std::string& channel) {
    std::vector<int> members(static_cast<std::size_t>(size()));
    std::iota(members.begin(), members.end(), 0);
    return make_tcp_communicator(connection_manager_, channel, std::move(members));
  }

  // Exchanges the addresses of all ranks, and counts the ranks of this host.
  void exchange_peers() {
    const auto texts = all_gather_texts(encode(connection_manager_.own()), *control_);
    const std::vector<std::string> hosts = gather_hosts(*control_);
    host_ = hosts[static_cast<std::size_t>(rank())];
    std::vector<Peer> peers;
    local_size_ = 0;
    for (int r = 0; r < size(); ++r) {
      peers.push_back(decode_peer(texts[static_cast<std::size_t>(r)]));
      peers.back().host = hosts[static_cast<std::size_t>(r)];
      if (peers.back().host != host_) continue;
      if (r < rank()) ++local_rank_;
      ++local_size_;
    }
    control_->barrier();  // after this no rank reads the store, so rank 0 may stop serving it
    connection_manager_.finish_start(std::move(peers));
  }

  std::string host_;
  int local_rank_ = 0;
  int local_size_ = 1;
  int num_connections_ = 0;
  ConnectionManager connection_manager_;
  std::optional<JobWatch> watch_;
  std::unique_ptr<Communicator> control_;
};

}  // namespace

std::unique_ptr<World> make_tcp_world(const JobLocation& place) {
  return std::make_unique<TcpWorld>(place);
}

}  // namespace packtrain
