#include "parallel/communicators/tcp/rendezvous.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <exception>
#include <vector>

#include "framework/core/error.h"
#include "parallel/communicators/tcp/socket.h"

namespace packtrain {

struct Rendezvous::Store {
  Store(const std::string& address, const c10d::TCPStoreOptions& options) : tcp(address, options) {}
  c10d::TCPStore tcp;
};

namespace {

std::string key_of(const JobLocation& place, int rank) {
  return fmt::format("packtrain/{}/{}", place.start, rank);
}

std::string first_line(const std::exception& failure) {
  const std::string text = failure.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

Rendezvous::Rendezvous(const JobLocation& place) : place_(place) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && !place.store_is_served;
  options.waitWorkers = false;
  options.timeout = kStartPatience;
  try {
    store_ = std::make_unique<Store>(place.address, options);
  } catch (const std::exception& failure) {
    throw Error(ErrorCategory::kDevice,
                fmt::format("rank {} of {} cannot {} the store of the job at {}:{}: {}", place.rank,
                            place.size, options.isServer ? "serve" : "reach", place.address,
                            place.port, first_line(failure)),
                options.isServer ? "Set MASTER_PORT to a port that is free on the host of rank 0, "
                                   "and MASTER_ADDR to that host."
                                 : "See that rank 0 was started, and that MASTER_ADDR and "
                                   "MASTER_PORT name its host and a port that is let through.");
  }
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::publish(const std::string& text) {
  store_->tcp.set(key_of(place_, place_.rank), std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string Rendezvous::read(int rank, std::chrono::milliseconds patience) {
  const std::string key = key_of(place_, rank);
  try {
    store_->tcp.wait({key}, patience);
    const std::vector<std::uint8_t> bytes = store_->tcp.get(key);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& failure) {
    throw Error(
        ErrorCategory::kDevice,
        fmt::format("rank {} of {} waited {:.0f} s at the start for rank {}, which did not "
                    "come to the store at {}:{}: {}",
                    place_.rank, place_.size, std::chrono::duration<double>(patience).count(), rank,
                    place_.address, place_.port, first_line(failure)),
        "See whether that rank was started, and with the same WORLD_SIZE.");
  }
}

std::string Rendezvous::own_address() const {
  return address_towards(place_.address, place_.port);
}

}  // namespace packtrain
