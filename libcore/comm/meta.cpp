#include "comm/communicator.h"
#include "comm/rank_sums.h"

namespace mtl {

namespace {

double parts_sent(const Tensor& whole, int size) { return double(whole.bytes()) * (size - 1) / size; }

}  // namespace

Work MetaCommunicator::start(Stream& stream, OperationKind kind, double bytes) {
  traffic_.bytes += bytes;
  if (kind != OperationKind::receive) ++traffic_.operations;
  Profile* profile = stream.profile();
  if (profile == nullptr) return {};
  const int entry = profile->begin(stream, {.kind = ProfileKind::communication,
                                            .name = name_of(kind),
                                            .detail = name_,
                                            .work = {.flops = 0, .bytes = bytes}});
  profile->end(stream, entry);
  return Work(entry);
}

void MetaCommunicator::check_peer(int peer) const {
  require(peer >= 0 && peer < size_ && peer != rank_, "no peer ", peer, " in a group of ", size_);
}

Work MetaCommunicator::all_reduce(Stream& stream, Tensor data) {
  check_summable(data);
  return start(stream, OperationKind::all_reduce, 2 * parts_sent(data, size_));
}

Work MetaCommunicator::all_gather(Stream& stream, Tensor out, Tensor in) {
  check_parts("planned", out, in, size_);
  return start(stream, OperationKind::all_gather, parts_sent(out, size_));
}

Work MetaCommunicator::reduce_scatter(Stream& stream, Tensor out, Tensor in) {
  check_parts("planned", in, out, size_);
  check_summable(in);
  return start(stream, OperationKind::reduce_scatter, parts_sent(in, size_));
}

Work MetaCommunicator::broadcast(Stream& stream, Tensor data, int root) {
  return start(stream, OperationKind::broadcast, rank_ == root ? double(data.bytes()) * (size_ - 1) : 0);
}

Work MetaCommunicator::send(Stream& stream, Tensor data, int peer, Channel) {
  check_peer(peer);
  return start(stream, OperationKind::send, double(data.bytes()));
}

Work MetaCommunicator::receive(Stream& stream, Tensor, int peer, Channel) {
  check_peer(peer);
  return start(stream, OperationKind::receive, 0);
}

}  // namespace mtl
