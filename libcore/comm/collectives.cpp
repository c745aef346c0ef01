#include "comm/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/lanes.h"
#include "comm/rank_sums.h"
#include "comm/staging.h"

namespace mtl {

namespace {

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw()); }

/// Splits `whole` into `size` parts whose lengths differ by at most one element. Returns the byte offset where part
/// `part` starts, or the end of `whole` if part == size.
std::size_t part_begin(const Tensor& whole, int part, int size) {
  std::size_t count = whole.numel(), parts = size;
  std::size_t index = part;
  return (index * (count / parts) + std::min(index, count % parts)) * size_of(whole.dtype());
}

/// Calls `function` for every other rank in the group. Starts with the next rank, so that the ranks do not all contact
/// the same peer first.
template <class Function>
void for_others(const GroupLink& link, const Function& function) {
  for (int step = 1; step < link.size; ++step) function((link.rank + step) % link.size);
}

/// Receives this rank's part from all other ranks and sums it, segment by segment. Meanwhile, sends every other rank
/// its part.
class PartSums {
 public:
  /// The sums for this rank's part are written to `out`, which can be the same part of `whole`.
  PartSums(const GroupLink& link, const OperationLabel* label, Tensor whole, std::byte* out)
      : link_(link),
        label_(label),
        dtype_(whole.dtype()),
        out_(out),
        segment_(segment_bytes(link.size)),
        sends_(link, label, tag_of(label->kind, label->number), segment_) {
    auto begin = [&](int part) { return part_begin(whole, part, link.size); };
    own_part_ = bytes_of(whole) + begin(link.rank);
    bytes_ = begin(link.rank + 1) - begin(link.rank);
    for_others(link,
               [&](int peer) { sends_.send(peer, bytes_of(whole) + begin(peer), begin(peer + 1) - begin(peer)); });
    inputs_.resize(link.size);
  }
  PartSums(const PartSums&) = delete;

  bool progress() {
    bool moved = true;
    while (moved) {
      moved = false;
      while (received_ < bytes_ && received_ < summed_ + kStagingSlots * segment_) receive_segment();
      while (summed_ < received_ && pending_[slot_of(summed_)] == 0) {
        sum_segment();
        moved = true;
      }
    }
    return sends_.progress() && summed_ == bytes_;
  }

 private:
  std::size_t slot_of(std::size_t offset) const { return offset / segment_ % kStagingSlots; }
  std::byte* staging(std::size_t offset, int peer) const {
    std::size_t ranks = link_.size;
    return link_.staging + (slot_of(offset) * ranks + peer) * segment_;
  }
  void receive_segment() {
    std::size_t bytes = std::min(segment_, bytes_ - received_);
    for_others(link_, [&](int peer) {
      link_.wire->receive({.group = link_.handle,
                           .peer = peer,
                           .tag = tag_of(label_->kind, label_->number),
                           .data = staging(received_, peer),
                           .bytes = bytes,
                           .pending = &pending_[slot_of(received_)],
                           .label = label_});
    });
    received_ += bytes;
  }
  void sum_segment() {
    std::size_t bytes = std::min(segment_, bytes_ - summed_);
    for (int r = 0; r < link_.size; ++r) inputs_[r] = r == link_.rank ? own_part_ + summed_ : staging(summed_, r);
    sum_in_rank_order(dtype_, out_ + summed_, inputs_, bytes);
    summed_ += bytes;
  }

  const GroupLink& link_;
  const OperationLabel* label_;
  DType dtype_;
  std::byte* own_part_;
  std::byte* out_;
  std::size_t segment_, bytes_, received_ = 0, summed_ = 0;  // in bytes; received_ includes receives still in flight
  std::array<int, kStagingSlots> pending_{};
  std::vector<const std::byte*> inputs_;  // one per rank
  Lanes sends_;
};

/// Adds lanes that send this rank's part to every other rank and receive all other parts. This rank's part must already
/// be in place in `whole` when the sends start.
void add_gather(Lanes& lanes, const GroupLink& link, Tensor whole) {
  auto part = [&](int rank) { return bytes_of(whole) + part_begin(whole, rank, link.size); };
  for_others(link, [&](int peer) { lanes.receive(peer, part(peer), part(peer + 1) - part(peer)); });
  for_others(link, [&](int peer) { lanes.send(peer, part(link.rank), part(link.rank + 1) - part(link.rank)); });
}

class AllReduce final : public Task {
 public:
  AllReduce(const GroupLink& link, const OperationLabel& label, Tensor data)
      : Task(label),
        sums_(link, &this->label(), data, bytes_of(data) + part_begin(data, link.rank, link.size)),
        gather_(link, &this->label(), tag_of(OperationKind::all_reduce_sums, label.number)) {
    add_gather(gather_, link, data);
  }

 private:
  bool progress() override {
    // The gather overwrites the parts that we send here, so all of these sends must complete first.
    summed_ = summed_ || sums_.progress();
    return summed_ && gather_.progress();
  }
  PartSums sums_;
  Lanes gather_;
  bool summed_ = false;
};

class SmallAllReduce final : public Task {
 public:
  SmallAllReduce(const GroupLink& link, const OperationLabel& label, Tensor data)
      : Task(label), link_(link), data_(data), lanes_(link, &this->label(), tag_of(label.kind, label.number)) {
    for_others(link_, [&](int peer) { lanes_.receive(peer, staging(peer), data_.bytes()); });
    for_others(link_, [&](int peer) { lanes_.send(peer, bytes_of(data_), data_.bytes()); });
  }

 private:
  std::byte* staging(int peer) const { return link_.staging + peer * kSmallReduction; }
  bool progress() override {
    if (!lanes_.progress()) return false;
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < link_.size; ++r) inputs.push_back(r == link_.rank ? bytes_of(data_) : staging(r));
    sum_in_rank_order(data_.dtype(), bytes_of(data_), inputs, data_.bytes());
    return true;
  }
  const GroupLink& link_;
  Tensor data_;
  Lanes lanes_;
};

class ReduceScatter final : public Task {
 public:
  ReduceScatter(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in)
      : Task(label), sums_(link, &this->label(), in, bytes_of(out)) {}

 private:
  bool progress() override { return sums_.progress(); }
  PartSums sums_;
};

class AllGather final : public Task {
 public:
  AllGather(const GroupLink& link, const OperationLabel& label, Tensor out, Tensor in)
      : Task(label),
        in_(in),
        own_part_(bytes_of(out) + link.rank * in.bytes()),
        lanes_(link, &this->label(), tag_of(label.kind, label.number)) {
    add_gather(lanes_, link, out);
  }

 private:
  bool progress() override {
    if (!copied_ && in_.bytes() > 0 && own_part_ != bytes_of(in_)) std::memmove(own_part_, in_.raw(), in_.bytes());
    copied_ = true;
    return lanes_.progress();
  }
  Tensor in_;
  std::byte* own_part_;  // this rank's part of out
  bool copied_ = false;
  Lanes lanes_;
};

/// Runs its lanes. Involves no arithmetic.
class Exchange final : public Task {
 public:
  Exchange(const GroupLink& link, const OperationLabel& label, OperationKind tags)
      : Task(label), lanes(link, &this->label(), tag_of(tags, label.number)) {}
  Lanes lanes;

 private:
  bool progress() override { return lanes.progress(); }
};

std::shared_ptr<Task> broadcast_task(const GroupLink& link, const OperationLabel& label, Tensor data, int root) {
  auto task = std::make_shared<Exchange>(link, label, label.kind);
  if (link.rank == root)
    for_others(link, [&](int peer) { task->lanes.send(peer, bytes_of(data), data.bytes()); });
  else
    task->lanes.receive(root, bytes_of(data), data.bytes());
  return task;
}

std::shared_ptr<Task> message_task(const GroupLink& link, const OperationLabel& label, Tensor data, int peer) {
  // Both ends use the same tags: one kind's for each channel.
  const OperationKind tags = label.channel == Channel::activations ? OperationKind::send : OperationKind::receive;
  auto task = std::make_shared<Exchange>(link, label, tags);
  if (label.kind == OperationKind::send)
    task->lanes.send(peer, bytes_of(data), data.bytes());
  else
    task->lanes.receive(peer, bytes_of(data), data.bytes());
  return task;
}

}  // namespace

std::shared_ptr<Task> make_task(const GroupLink& link, const OperationLabel& label, const Transfer& transfer) {
  const Tensor &out = transfer.out, &in = transfer.in;
  switch (transfer.kind) {
    case OperationKind::all_reduce:
      if (out.bytes() <= kSmallReduction) return std::make_shared<SmallAllReduce>(link, label, out);
      return std::make_shared<AllReduce>(link, label, out);
    case OperationKind::all_gather:
      return std::make_shared<AllGather>(link, label, out, in);
    case OperationKind::reduce_scatter:
      return std::make_shared<ReduceScatter>(link, label, out, in);
    case OperationKind::broadcast:
      return broadcast_task(link, label, out, transfer.peer);
    default:
      return message_task(link, label, out, transfer.peer);
  }
}

}  // namespace mtl
