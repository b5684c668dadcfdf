#include "framework/metrics/exporter.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "framework/metrics/listen_socket.h"

namespace packtrain {
namespace {

// Far more than scrapers need, so that a hundred stuck clients do not block a working one. Far
// below the file descriptors that the rest of the process needs.
constexpr unsigned kMaxConnections = 256;
constexpr std::size_t kConnectionMemoryBytes = std::size_t{16} << 10;
// Must hold the static thread-local storage of libtorch and NCCL, more than 128 KB.
constexpr std::size_t kThreadStackBytes = std::size_t{1} << 20;

struct ResponseDeleter {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};

struct Answer {
  unsigned status;
  const char* content_type;
  std::string body;
};

constexpr const char* kPlainText = "text/plain; charset=utf-8";

MHD_Result send(MHD_Connection* connection, const Answer& answer) {
  // libmicrohttpd copies the body. Only its C interface lacks the const.
  const std::unique_ptr<MHD_Response, ResponseDeleter> response(MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY));
  if (!response) return MHD_NO;
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type);
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  return MHD_queue_response(connection, answer.status, response.get());
}

std::optional<Answer> error_answer(std::string_view path, std::string_view method) {
  if (path != "/metrics" && path != "/healthz") {
    return Answer{MHD_HTTP_NOT_FOUND, kPlainText, "the metrics are at /metrics\n"};
  }
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
    return Answer{MHD_HTTP_METHOD_NOT_ALLOWED, kPlainText, "only GET and HEAD\n"};
  }
  return std::nullopt;
}

Answer answer_to(std::string_view path, std::string_view method, Exporter::Request& request) {
  if (path == "/healthz") {
    const std::string trouble = request.exporter->trouble();
    if (trouble.empty()) return {MHD_HTTP_OK, kPlainText, "ok\n"};
    return {MHD_HTTP_SERVICE_UNAVAILABLE, kPlainText, trouble + "\n"};
  }
  const std::string page = request.exporter->make_page(request);
  if (method == MHD_HTTP_METHOD_HEAD) request.page = 0;  // a HEAD request does not read the page
  return {MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", page};
}

// libmicrohttpd calls this when the request's headers are complete (*request is null), for each
// part of a body, and once more at the end. An answer is possible only at the end. An error is
// answered immediately, so that the body is not read.
MHD_Result answer_request(void* exporter, MHD_Connection* connection, const char* path,
                          const char* method, const char* /*version*/, const char* /*body*/,
                          std::size_t* body_size, void** request) noexcept {
  try {
    if (*request == nullptr) {
      // end_request() deletes it
      *request = new Exporter::Request{static_cast<Exporter*>(exporter)};
      const std::optional<Answer> refusal = error_answer(path, method);
      return refusal ? send(connection, *refusal) : MHD_YES;
    }
    if (*body_size > 0) {
      *body_size = 0;  // the body of a GET is ignored
      return MHD_YES;
    }
    return send(connection, answer_to(path, method, *static_cast<Exporter::Request*>(*request)));
  } catch (...) {
    return MHD_NO;  // out of memory: drops this connection and continues the run
  }
}

void end_request(void* /*exporter*/, MHD_Connection* /*connection*/, void** request,
                 MHD_RequestTerminationCode how) noexcept {
  const std::unique_ptr<Exporter::Request> ended(static_cast<Exporter::Request*>(*request));
  *request = nullptr;
  if (ended && how == MHD_REQUEST_TERMINATED_COMPLETED_OK) ended->exporter->sent(*ended);
}

// libmicrohttpd 0.9.75 reads a response that is null when it refuses a malformed request after its
// daemon began to stop. So requests that arrived before are answered first. Clients that do not
// proceed are not waited for longer.
constexpr int kMaxDrainWaits = 20;
constexpr std::chrono::milliseconds kDrainWait{5};

void drain(MHD_Daemon* daemon) {
  for (int i = 0; i < kMaxDrainWaits; ++i) {
    const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    if (info == nullptr || info->num_connections == 0) return;
    std::this_thread::sleep_for(kDrainWait);
  }
}

}  // namespace

std::unique_ptr<Exporter> Exporter::start(const std::string& address, int port, Page page,
                                          Trouble trouble, unsigned idle_timeout_s) {
  const std::optional<ListenSocket> socket = ListenSocket::open(address, port);
  if (!socket) return nullptr;
  std::unique_ptr<Exporter> exporter(
      new Exporter(socket->endpoint(), std::move(page), std::move(trouble)));
  // The daemon closes its socket, but after a failed start only sometimes. So it gets a duplicate,
  // and the original decides whether the port stays open.
  const int duplicate = fcntl(socket->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return nullptr;
  exporter->daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD, 0, nullptr, nullptr, &answer_request, exporter.get(),
      MHD_OPTION_NOTIFY_COMPLETED, &end_request, nullptr, MHD_OPTION_LISTEN_SOCKET, duplicate,
      MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT, idle_timeout_s,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemoryBytes, MHD_OPTION_THREAD_STACK_SIZE,
      kThreadStackBytes, MHD_OPTION_END);
  if (exporter->daemon_ == nullptr) {
    shutdown(socket->descriptor(), SHUT_RDWR);
    return nullptr;
  }
  return exporter;
}

Exporter::Exporter(std::string endpoint, Page page, Trouble trouble)
    : endpoint_(std::move(endpoint)), page_(std::move(page)), trouble_(std::move(trouble)) {}

std::string Exporter::make_page(Request& request) {
  {
    const std::lock_guard lock(mutex_);
    request.page = ++num_pages_;
  }
  return page_();
}

void Exporter::sent(const Request& request) {
  const std::lock_guard lock(mutex_);
  newest_sent_ = std::max(newest_sent_, request.page);
  was_sent_.notify_all();
}

void Exporter::wait_for_scrape(double timeout_s) {
  std::unique_lock lock(mutex_);
  const std::int64_t before = num_pages_;
  was_sent_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                     [&] { return newest_sent_ > before; });
}

Exporter::~Exporter() {
  if (daemon_ == nullptr) return;
  drain(daemon_);
  MHD_stop_daemon(daemon_);
}

}  // namespace packtrain
