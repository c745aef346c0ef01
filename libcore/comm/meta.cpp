#include "comm/communicator.h"
#include "comm/rank_sums.h"

namespace mtl {

namespace {

double parts_sent(const Tensor& whole, int size) { return double(whole.bytes()) * (size - 1) / size; }

}  // namespace

Work MetaCommunicator::send_bytes(double bytes) {
  traffic_.bytes += bytes;
  ++traffic_.operations;
  return {};
}

void MetaCommunicator::check_peer(int peer) const {
  require(peer >= 0 && peer < size_ && peer != rank_, "no peer ", peer, " in a group of ", size_);
}

Work MetaCommunicator::all_reduce(Stream&, Tensor data) {
  check_summable(data);
  return send_bytes(2 * parts_sent(data, size_));
}

Work MetaCommunicator::all_gather(Stream&, Tensor out, Tensor in) {
  check_parts("planned", out, in, size_);
  return send_bytes(parts_sent(out, size_));
}

Work MetaCommunicator::reduce_scatter(Stream&, Tensor out, Tensor in) {
  check_parts("planned", in, out, size_);
  check_summable(in);
  return send_bytes(parts_sent(in, size_));
}

Work MetaCommunicator::broadcast(Stream&, Tensor data, int root) {
  return send_bytes(rank_ == root ? double(data.bytes()) * (size_ - 1) : 0);
}

Work MetaCommunicator::send(Stream&, Tensor data, int peer, Channel) {
  check_peer(peer);
  return send_bytes(double(data.bytes()));
}

Work MetaCommunicator::receive(Stream&, Tensor, int peer, Channel) {
  check_peer(peer);
  return {};
}

}  // namespace mtl
