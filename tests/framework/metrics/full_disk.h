#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace packtrain {

// Files of this process take `num_bytes` at most, as on a disk that is full then.
class FullDisk {
 public:
  explicit FullDisk(rlim_t num_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{num_bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  sighandler_t handler_;
  rlimit before_{};
};

}  // namespace packtrain
