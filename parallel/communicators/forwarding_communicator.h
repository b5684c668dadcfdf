// Forwards every call to another communicator. Subclasses override the calls that they change.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "parallel/communicators/communicator.h"

namespace packtrain {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> real) : real_(std::move(real)) {}

  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override {
    real_->all_gather(send, receive, count, type, stream);
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override {
    real_->reduce_scatter(send, receive, count, type, stream);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, DataType type,
                  void* stream) override {
    real_->all_to_all(send, send_counts, receive, receive_counts, type, stream);
  }
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override {
    real_->all_reduce(buffer, count, type, op, stream);
  }
  void broadcast(void* buffer, std::size_t bytes, int root, void* stream) override {
    real_->broadcast(buffer, bytes, root, stream);
  }
  void barrier() override { real_->barrier(); }
  void gather(const void* send, void* receive, std::size_t count, DataType type,
              int root) override {
    real_->gather(send, receive, count, type, root);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return real_->split(color, key);
  }
  CommunicatorMemory allocate(std::size_t bytes) override { return real_->allocate(bytes); }
  std::size_t allocate_scratch(std::size_t bytes) override {
    return real_->allocate_scratch(bytes);
  }
  std::string path() const override { return real_->path(); }
  void poll_error() override { real_->poll_error(); }
  void abort() override { real_->abort(); }

 protected:
  Communicator& real() { return *real_; }

 private:
  std::unique_ptr<Communicator> real_;
};

}  // namespace packtrain
