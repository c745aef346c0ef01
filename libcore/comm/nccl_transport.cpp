#include "comm/nccl_transport.h"

#include <algorithm>

#include "base/console.h"
#include "base/worker_thread.h"
#include "comm/nccl_communicator.h"
#include "comm/text_exchange.h"

namespace mtl {

namespace {

constexpr double kCheckSeconds = .05;

}  // namespace

NcclTransport::NcclTransport(MpiProgress& progress, NcclLibrary& library)
    : progress_(progress), library_(library), device_(cuda::used_device()) {
  progress.watch(this);
}

NcclTransport::~NcclTransport() {
  progress_.watch(nullptr);
  if (!aborting_.joinable()) return;
  // If the GPU has failed, CUDA may never release the graphs that the library waits for. The process is ending.
  if (gpu_failed_)
    aborting_.detach();
  else
    aborting_.join();
}

std::shared_ptr<Communicator> NcclTransport::group(Communicator& control, const std::vector<int>& ranks,
                                                   const std::string& name, MessagePaths paths) {
  const int size = static_cast<int>(ranks.size());
  const std::size_t count = 1 + NcclCommunicator::message_links(size, paths).size();
  std::vector<std::string> ids;
  if (size > 1 && ranks.front() == control.rank()) {
    for (std::size_t i = 0; i < count; ++i) ids.push_back(library_.unique_id());
  }
  const std::string received = gather_texts(control, join(ids, ""))[ranks.front()];
  if (size == 1) return std::make_shared<SelfCommunicator>();
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): 1 + a size is never 0
  const std::size_t length = received.size() / count;
  ids.clear();
  for (std::size_t i = 0; i < count; ++i) ids.push_back(received.substr(i * length, length));
  const auto index = std::find(ranks.begin(), ranks.end(), control.rank()) - ranks.begin();
  groups_.push_back(std::make_shared<NcclCommunicator>(*this, static_cast<int>(index), ranks, name, paths, ids));
  return groups_.back();
}

NcclChannel& NcclTransport::open(const std::string& id, int rank, int size, const std::string& name, int blocks) {
  std::list<NcclChannel> opened(1);
  NcclChannel& channel = opened.front();
  channel.name = name;
  channel.handle = library_.open(id, rank, size, channel.name, blocks);
  auto lock = progress_.enter();
  channels_.splice(channels_.end(), opened);
  return channel;
}

void NcclTransport::close() {
  std::list<NcclChannel> closing;
  {
    auto lock = progress_.enter();
    if (abandoned_) return;
    for (const NcclChannel& channel : channels_) channel.stream.synchronize();
    in_progress_.clear();
    closing.swap(channels_);
  }
  for (const NcclChannel& channel : closing) library_.close(channel.handle);
}

std::shared_ptr<void> NcclTransport::register_memory(NcclHandle group, const Tensor& memory) {
  check();
  return {library_.register_memory(group, memory), [this, group](void* registered) {
            if (registered != nullptr && !abandoned_) library_.deregister_memory(group, registered);
          }};
}

OperationProgress NcclTransport::check() {
  auto lock = progress_.enter();
  if (!fault_.empty()) throw CommunicationError(fault_);
  if (abandoned_) throw Interrupted("communication between GPUs was interrupted: a rank failed");
  return progress_.at();
}

void NcclTransport::started(std::shared_ptr<NcclOperation> operation) {
  auto lock = progress_.enter();
  if (abandoned_) intact_ = false;  // since check()
  prune();
  in_progress_.push_back(std::move(operation));
}

void NcclTransport::prune() {
  while (!in_progress_.empty() && in_progress_.front()->end.done()) in_progress_.pop_front();
}

void NcclTransport::check_faults(const OperationProgress& at) {
  const double now = now_seconds();
  if (abandoned_ || now - checked_at_ < kCheckSeconds) return;
  checked_at_ = now;
  Watchdog& watchdog = progress_.watchdog();
  try {
    cuda::use_device(device_);  // the progress thread, too
    for (const NcclChannel& channel : channels_) {
      const std::string fault = library_.fault(channel.handle);
      if (fault.empty()) continue;
      throw CommunicationError(cat("NCCL: group '", channel.name, "': ", fault));
    }
    // Find the first operation that has started but is not done. It no longer waits for other work on this rank.
    auto waiting = std::find_if(in_progress_.begin(), in_progress_.end(), [](const auto& operation) {
      return operation->begin.done() && !operation->end.done();
    });
    watchdog.set_device_wait(waiting == in_progress_.end() ? nullptr : &(*waiting)->label);
    watchdog.check_device_deadline(at);
  } catch (const CommunicationError& error) {
    watchdog.set_device_wait(nullptr);
    fault_ = error.what();
    abandon();
    throw;
  } catch (const Error&) {  // the GPU has failed: the main thread's next call reports it, and all ranks agree on that
  }
}

void NcclTransport::abandon() noexcept {
  if (abandoned_) return;
  abandoned_ = true;
  try {
    cuda::use_device(device_);
    intact_ = std::all_of(in_progress_.begin(), in_progress_.end(),
                          [](const auto& operation) { return operation->end.done(); });
  } catch (const Error&) {  // the GPU has failed, possibly as the reason for this call
    intact_ = false;
    gpu_failed_ = true;
  }
  progress_.watchdog().set_device_wait(nullptr);
  std::vector<NcclHandle> handles;
  for (NcclChannel& channel : channels_) handles.push_back(channel.handle);
  // The caller may hold the progress lock, or the graphs that the library waits for.
  aborting_ = worker_thread([&library = library_, device = device_, handles] {
    try {
      cuda::use_device(device);
    } catch (const Error&) {  // the GPU has failed; NCCL's threads may still wait for other ranks
    }
    library.abort(handles);
  });
}

}  // namespace mtl
