#include "comm/mpi_session.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <numeric>

#include "base/host_name.h"
#include "comm/arrival_deadline.h"
#include "comm/mpi_progress.h"
#include "comm/nccl_transport.h"
#include "comm/text_exchange.h"

namespace mtl {

namespace {

constexpr double kEndSeconds = 10;

}  // namespace

MpiSession::MpiSession(const RankEnvironment& launched)
    : launched_(launched),
      exceptions_(std::uncaught_exceptions()),
      progress_(std::make_unique<MpiProgress>(launched.rank, launched.world)) {
  std::vector<int> all(launched.world);
  std::iota(all.begin(), all.end(), 0);
  control_ = group(all, "world");
  hosts_ = gather_texts(*control_, host_name());
  progress_->watchdog().set_hosts(hosts_);
}

MpiSession::~MpiSession() {
  if (finished_) return;
  if (std::uncaught_exceptions() > exceptions_) abort(static_cast<int>(Exit::failure));
  try {
    finish(kEndSeconds, [] { std::_Exit(static_cast<int>(Exit::failure)); });
  } catch (const std::exception&) {
    abort(static_cast<int>(Exit::failure));
  }
}

std::shared_ptr<Communicator> MpiSession::group(const std::vector<int>& ranks, const std::string& name) {
  if (ranks.size() == 1) return std::make_shared<SelfCommunicator>();
  auto lock = progress_->enter();
  return progress_->group(ranks, name);
}

std::shared_ptr<Communicator> MpiSession::gpu_group(const std::vector<int>& ranks, const std::string& name,
                                                    MessagePaths paths) {
  if (gpus_ == nullptr) gpus_ = std::make_unique<NcclTransport>(*progress_, nccl_library());
  return gpus_->group(*control_, ranks, name, paths);
}

void MpiSession::set_deadline(double seconds) {
  auto lock = progress_->enter();
  progress_->watchdog().set_deadline(seconds);
}

void MpiSession::warn_with(std::function<void(const std::string&)> warn) {
  auto lock = progress_->enter();
  progress_->watchdog().set_warning(std::move(warn));
}

void MpiSession::follow(const OperationProgress* progress) { progress_->follow(progress); }

void MpiSession::barrier() {
  float value = 1;
  Stream stream(Device::cpu);
  control_->all_reduce(stream, Tensor(&value, DType::f32, {1})).join();
}

void MpiSession::finish(double seconds, std::function<void()> expired) {
  barrier();
  if (gpus_ != nullptr) gpus_->close();
  progress_->stop_progress_thread();
  ArrivalDeadline guard(seconds, std::move(expired));
  progress_->wire().finalize();
  finished_ = true;
}

void MpiSession::abort(int code) {
  progress_->stop_progress_thread();
  progress_->wire().abort(code);
}

}  // namespace mtl
