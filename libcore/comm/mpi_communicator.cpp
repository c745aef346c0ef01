#include "comm/mpi_communicator.h"

#include <algorithm>

#include "comm/mpi_progress.h"
#include "comm/rank_sums.h"
#include "comm/staging.h"

namespace mtl {

namespace {

/// The caller's handle to a task.
class Handle final : public Work::Operation {
 public:
  Handle(MpiProgress& progress, std::shared_ptr<Task> task) : progress_(progress), task_(std::move(task)) {}
  ~Handle() override { progress_.abandon(*task_); }
  Handle(const Handle&) = delete;
  bool done() override {
    auto lock = progress_.enter();
    if (!task_->finished()) progress_.poll();
    return task_->finished();
  }
  void join() override {
    auto lock = progress_.enter();
    progress_.wait(*task_);
  }

 private:
  MpiProgress& progress_;
  std::shared_ptr<Task> task_;
};

}  // namespace

MpiCommunicator::MpiCommunicator(MpiProgress& progress, std::vector<int> ranks, std::string name)
    : progress_(progress),
      identity_{std::move(name), std::move(ranks)},
      staging_(Device::cpu, staging_bytes(static_cast<int>(identity_.ranks.size()))),
      sent_(identity_.ranks.size() * kChannels),
      received_(identity_.ranks.size() * kChannels) {
  const std::vector<int>& members = identity_.ranks;
  auto self = std::find(members.begin(), members.end(), progress.wire().rank());
  require(self != members.end(), "group '", identity_.name, "': rank ", progress.wire().rank(), " is not a member");
  link_.wire = &progress.wire();
  link_.handle = progress.wire().make_group(members);
  link_.rank = static_cast<int>(self - members.begin());
  link_.size = static_cast<int>(members.size());
  link_.staging = staging_.data();
}

OperationLabel MpiCommunicator::label(OperationKind kind, const Tensor& data, int peer) const {
  return make_label(kind, identity_, started_, data, peer, progress_.at());
}

Work MpiCommunicator::work_of(std::shared_ptr<Task> task) {
  if (task->finished()) return {};
  return Work(std::make_shared<Handle>(progress_, std::move(task)));
}

Work MpiCommunicator::start(std::shared_ptr<Task> task) {
  ++started_;
  collectives_.push_back(task);
  advance();
  return work_of(std::move(task));
}

Work MpiCommunicator::all_reduce(Stream&, Tensor data) {
  check_summable(data);
  auto lock = progress_.enter();
  return start(all_reduce_task(link_, label(OperationKind::all_reduce, data), data));
}

Work MpiCommunicator::all_gather(Stream&, Tensor out, Tensor in) {
  check_parts(identity_.name, out, in, size());
  auto lock = progress_.enter();
  return start(all_gather_task(link_, label(OperationKind::all_gather, out), out, in));
}

Work MpiCommunicator::reduce_scatter(Stream&, Tensor out, Tensor in) {
  check_parts(identity_.name, in, out, size());
  check_summable(in);
  auto lock = progress_.enter();
  return start(reduce_scatter_task(link_, label(OperationKind::reduce_scatter, in), out, in));
}

Work MpiCommunicator::broadcast(Stream&, Tensor data, int root) {
  require(root >= 0 && root < size(), "group '", identity_.name, "' of ", size(), " has no rank ", root);
  auto lock = progress_.enter();
  return start(broadcast_task(link_, label(OperationKind::broadcast, data, root), data, root));
}

Work MpiCommunicator::exchange(OperationKind kind, const Tensor& data, int peer, Channel channel,
                               std::vector<std::int64_t>& started) {
  require(peer >= 0 && peer < size() && peer != rank(), "group '", identity_.name, "' of ", size(), ": no peer ", peer);
  auto lock = progress_.enter();
  OperationLabel message_label = label(kind, data, peer);
  message_label.channel = channel;
  message_label.number = started[peer * kChannels + static_cast<int>(channel)]++;
  auto task = message_task(link_, message_label, data, peer);
  task->advance();
  if (!task->finished()) messages_.push_back(task);
  return work_of(std::move(task));
}

Work MpiCommunicator::send(Stream&, Tensor data, int peer, Channel channel) {
  return exchange(OperationKind::send, data, peer, channel, sent_);
}

Work MpiCommunicator::receive(Stream&, Tensor data, int peer, Channel channel) {
  return exchange(OperationKind::receive, data, peer, channel, received_);
}

void MpiCommunicator::progress() {
  auto lock = progress_.enter();
  progress_.poll();
  progress_.progress_in_background();
}

void MpiCommunicator::interrupt_others() { progress_.interrupt_others(); }

void MpiCommunicator::advance() {
  while (!collectives_.empty()) {
    collectives_.front()->advance();
    if (!collectives_.front()->finished()) break;
    collectives_.pop_front();
  }
  for (auto& task : messages_) task->advance();
  std::erase_if(messages_, [](const auto& task) { return task->finished(); });
}

}  // namespace mtl
