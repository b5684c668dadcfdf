// The one error type of the project. Libraries throw it; only `main` maps it to an exit code.
#pragma once

#include <exception>
#include <string>

namespace packtrain {

// The kind of an error. Its value is the exit code of the process (docs/operations.md).
enum class ErrorCategory : int {
  kConfig = 64,
  kData = 65,
  kCheckpoint = 66,
  kDevice = 69,
  kInternal = 70,
  kNonFinite = 71,
  kHang = 72,
  kReplicasDiffer = 73,
  kVerify = 74,
  kStopped = 75,
  kDoNotRestart = 93,
};

const char* category_name(ErrorCategory category);

// `message` says what happened, where, the value and the expected value. `advice` says what the
// user can do about it; it can be empty.
class Error : public std::exception {
 public:
  Error(ErrorCategory category, std::string message, std::string advice = "");

  const char* what() const noexcept override { return text_.c_str(); }
  ErrorCategory category() const noexcept { return category_; }
  int exit_code() const noexcept { return static_cast<int>(category_); }
  const std::string& message() const noexcept { return message_; }
  const std::string& advice() const noexcept { return advice_; }

 private:
  ErrorCategory category_;
  std::string message_;
  std::string advice_;
  std::string text_;
};

}  // namespace packtrain
