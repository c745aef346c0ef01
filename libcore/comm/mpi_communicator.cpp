#include "comm/mpi_communicator.h"

#include <algorithm>

#include "comm/mpi_progress.h"
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

Work MpiCommunicator::start(Stream&, const Transfer& transfer) {
  auto lock = progress_.enter();
  const bool is_message = transfer.is_message();
  std::int64_t* started = &started_;
  if (is_message)
    started = &(transfer.kind == OperationKind::send
                    ? sent_
                    : received_)[transfer.peer * kChannels + static_cast<int>(transfer.channel)];
  auto task = make_task(link_, make_label(transfer, identity_, *started, progress_.at()), transfer);
  ++*started;
  if (is_message) {
    task->advance();
    if (!task->finished()) messages_.push_back(task);
  } else {
    collectives_.push_back(task);
    advance();
  }
  return task->finished() ? Work() : Work(std::make_shared<Handle>(progress_, std::move(task)));
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
