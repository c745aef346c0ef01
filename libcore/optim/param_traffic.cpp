#include "optim/param_traffic.h"

#include <algorithm>

#include "base/console.h"
#include "device/copy.h"
#include "kernels/digest.h"
#include "kernels/elementwise.h"

namespace mtl {

ParamTraffic::ParamTraffic(ParamMemory& params, Stream& stream, const ProcessGroups& groups, Overlap overlap)
    : params_(params), stream_(stream), groups_(groups), overlap_(overlap), progress_(params.buckets().size()) {
  for (const Bucket& bucket : params.buckets())
    if (bucket.value_buffer)
      value_buffers_.resize(std::max<std::size_t>(value_buffers_.size(), *bucket.value_buffer + 1));
  if (stream.is_meta()) return;
  // What is summed and gathered is in the table's rows and in the rings.
  const auto register_all = [&](AxisSet axes, std::size_t row, Role role) {
    for (const Buffer* memory : {&params.row_memory(row), &params.work_memory(role)}) {
      const auto bytes = static_cast<std::int64_t>(memory->bytes());
      registered_.push_back(groups.over(axes).register_memory(memory->tensor(DType::u8, {bytes})));
    }
  };
  register_all(kReplicaAxes, kGradients, Role::gradients);
  register_all(params.owners(), kValues, Role::values);
}

void ParamTraffic::begin_step() {
  for (const Progress& progress : progress_) require(!progress.is_reducing, "the last step has not been finished");
  params_.begin_step();
  forget_values();
  repetition_ = nullptr;
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    progress_[b].missing = params_.buckets()[b].units;
    progress_[b].started = false;  // launching a captured update does not reset `started`
    progress_[b].holds_buffer = progress_[b].adds = false;
  }
}

void ParamTraffic::begin_repetition(Arena& scratch) {
  begin_step();
  nonfinite_.clear();
  repetition_ = &scratch;
}

Lease ParamTraffic::acquire(Role role, int unit, std::optional<int> next) {
  if (role == Role::gradients) {
    for (std::size_t bucket : params_.buckets_of(unit))
      if (params_.buckets()[bucket].gradient_buffer && !progress_[bucket].holds_buffer) take_buffer(bucket);
    return {};
  }
  const std::size_t group = params_.group_of(unit);
  Lease lease;
  if (ValueBuffer* buffer = buffer_of(group); buffer != nullptr) {
    require(fetch(group), "the buffer for the values of unit ", unit, " is in use");
    ++buffer->leases;
    lease = Lease(this, {role, unit});  // also ends if a wait below throws
  }
  for (std::size_t bucket : params_.buckets_of(unit)) finish(progress_[bucket].gathering);
  if (next) fetch(params_.group_of(*next));
  groups_.over(kReplicaAxes).progress();
  return lease;
}

void ParamTraffic::release(Role, int unit) noexcept { --buffer_of(params_.group_of(unit))->leases; }

/// Returns the group's buffer for values, or null if its values are not sharded.
ParamTraffic::ValueBuffer* ParamTraffic::buffer_of(std::size_t group) {
  const std::optional<int> buffer = params_.buckets()[params_.groups()[group].begin].value_buffer;
  return buffer ? &value_buffers_[*buffer] : nullptr;
}

/// Starts to gather a group's values, unless they are there, on the way, or not sharded. Returns false if another
/// group's values are leased in the buffer.
bool ParamTraffic::fetch(std::size_t group) {
  ValueBuffer* buffer = buffer_of(group);
  if (buffer == nullptr || buffer->group == group) return true;
  if (buffer->leases > 0) return false;
  forget(*buffer);
  buffer->group = group;
  for (std::size_t b = params_.groups()[group].begin; b < params_.groups()[group].end; ++b) gather(b);
  return true;
}

void ParamTraffic::forget(ValueBuffer& buffer) {
  require(buffer.leases == 0, "values change while a unit leases them");
  if (!buffer.group) return;
  for (std::size_t b = params_.groups()[*buffer.group].begin; b < params_.groups()[*buffer.group].end; ++b)
    wait(std::exchange(progress_[b].gathering, {}));
  buffer.group.reset();
}

void ParamTraffic::forget_values() {
  for (ValueBuffer& buffer : value_buffers_) forget(buffer);
}

void ParamTraffic::gradients_done(int unit, bool is_last) {
  for (std::size_t b : params_.buckets_of(unit)) {
    const Bucket& bucket = params_.buckets()[b];
    if (bucket.gradient_buffer) {
      if (--progress_[b].missing > 0) continue;
      progress_[b].missing = bucket.units;  // of the next micro-batch
      if (reduces()) {
        start_ring_reduction(b);
      } else {
        for (const Segment& segment : bucket.segments)
          if (is_nonfinite(*repetition_, params_.grad(segment.param))) nonfinite_.insert(segment.param);
        progress_[b].holds_buffer = false;
      }
    } else if (reduces() && is_last && --progress_[b].missing == 0 && overlap_.reduce) {
      start_reduction(b);
    }
  }
  groups_.over(kReplicaAxes).progress();
}

/// Waits until no other group uses the bucket's buffer, so that this micro-batch can write to it.
void ParamTraffic::take_buffer(std::size_t b) {
  const Bucket& bucket = params_.buckets()[b];
  for (std::size_t other = 0; other < progress_.size(); ++other)
    if (progress_[other].is_reducing && params_.buckets()[other].gradient_buffer == bucket.gradient_buffer)
      finish_ring_reduction(other);
  progress_[b].holds_buffer = true;
  params_.begin_writing(bucket);
}

/// Takes the digest of gradients that are complete on this rank. The gaps between parameters may hold anything.
void ParamTraffic::take_digest(const Bucket& bucket) {
  if (!digest_.exists()) return;
  for (const Segment& segment : bucket.segments) digest(stream_, digest_, params_.grad(segment.param));
  if (bucket.added_to) digest(stream_, digest_, params_.head_grad());
}

/// Sums a micro-batch's gradients over the replicas: the first of a step to the owned gradients, others in the buffer.
void ParamTraffic::start_ring_reduction(std::size_t b) {
  const Bucket& bucket = params_.buckets()[b];
  Progress& progress = progress_[b];
  take_digest(bucket);
  const Tensor sum = progress.adds ? bucket.owned_in_ring() : bucket.owned_grads();
  progress.reduction = groups_.over(bucket.key.ownership.replicas).reduce_scatter(stream_, sum, bucket.grads());
  progress.is_reducing = true;
  progress.holds_buffer = false;
}

void ParamTraffic::finish_ring_reduction(std::size_t b) {
  Progress& progress = progress_[b];
  const Bucket& bucket = params_.buckets()[b];
  finish(progress.reduction);
  if (progress.adds) add(stream_, bucket.owned_grads(), bucket.owned_in_ring());
  progress.adds = true;
  progress.is_reducing = false;
}

bool ParamTraffic::is_nonfinite(Arena& scratch, const Tensor& grad) const {
  Arena::Mark mark(scratch);
  const Tensor found = scratch.make(DType::i32, {1});
  find_nonfinite(stream_, found, grad);
  return host_copy<std::int32_t>(stream_, found)[0] != 0;
}

ParamTraffic::PartState ParamTraffic::end_part() {
  finish_rings();
  finish_gathering();
  PartState state;
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    finish(progress_[b].reduction);
    if (progress_[b].started || progress_[b].adds) state.reduced.push_back(b);
  }
  for (const ValueBuffer& buffer : value_buffers_) state.gathered.push_back(buffer.group);
  return state;
}

void ParamTraffic::restore(const PartState& state) {
  for (std::size_t b : state.reduced)
    (params_.buckets()[b].gradient_buffer ? progress_[b].adds : progress_[b].started) = true;
  for (std::size_t i = 0; i < value_buffers_.size(); ++i) value_buffers_[i].group = state.gathered[i];
}

bool ParamTraffic::captures_first() const { return !overlap_.gather || groups_.over(params_.owners()).size() == 1; }

bool ParamTraffic::captures_last() const {
  return !overlap_.reduce || groups_.over(kReplicaAxes).size() == 1 ||
         (reduces() && groups_.over(Axis::pipeline).size() == 1);
}

bool ParamTraffic::captures_micro_batch(bool is_first, bool is_last) const {
  return (!is_first || captures_first()) && (!is_last || captures_last()) && (reduces() || !params_.shards_gradients());
}

void ParamTraffic::start_reduction(std::size_t b) {
  Progress& progress = progress_[b];
  if (progress.started) return;
  progress.started = true;
  const Bucket& bucket = params_.buckets()[b];
  take_digest(bucket);
  const Ownership& own = bucket.key.ownership;
  Communicator& replicas = groups_.over(own.replicas);
  progress.reduction = own.owners.empty() ? replicas.all_reduce(stream_, bucket.grads())
                                          : replicas.reduce_scatter(stream_, bucket.owned_grads(), bucket.grads());
}

std::vector<std::string> ParamTraffic::nonfinite_gradients(Arena& scratch) const {
  std::vector<std::string> names;
  for (int param = 0; param < params_.size(); ++param) {
    const ParamSpec& spec = params_.specs()[param];
    if (nonfinite_.contains(param)) names.push_back(spec.name);
    if (params_.is_in_ring(param)) continue;  // noted by gradients_done()
    const Tensor of_head = spec.ownership.on_end_stages ? params_.head_grad() : Tensor();
    if (is_nonfinite(scratch, params_.grad(param)) || (of_head.exists() && is_nonfinite(scratch, of_head)))
      names.push_back(spec.name);
  }
  return names;
}

/// Finishes the sums that the rings still hold.
void ParamTraffic::finish_rings() {
  for (std::size_t b = 0; b < progress_.size(); ++b)
    if (progress_[b].is_reducing) finish_ring_reduction(b);
}

void ParamTraffic::finish_reduction() {
  params_.check_all_written();
  for (std::size_t b = 0; b < progress_.size(); ++b)
    if (!params_.buckets()[b].gradient_buffer) start_reduction(b);
  finish_rings();
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    finish(progress_[b].reduction);
    progress_[b].started = false;
    const Bucket& bucket = params_.buckets()[b];
    Tensor owned = bucket.owned_grads();
    wait(groups_.over(bucket.key.ownership.partial).all_reduce(stream_, owned));
    if (bucket.added_to)  // this is the last bucket, so the other sum is complete
      add(stream_, params_.buckets()[*bucket.added_to].owned_grads(), owned);
    else if (bucket.key.ownership.on_end_stages && !params_.head_grad().exists())
      wait(groups_.tied().all_reduce(stream_, owned));
  }
}

void ParamTraffic::gather(std::size_t b) {
  const Bucket& bucket = params_.buckets()[b];
  progress_[b].gathering =
      groups_.over(bucket.key.ownership.owners).all_gather(stream_, bucket.values(), bucket.owned_values());
}

void ParamTraffic::finish_gathering() {
  for (Progress& progress : progress_) finish(progress.gathering);
}

void ParamTraffic::finish(Work& work) {
  wait(work);
  work = {};
}

void ParamTraffic::wait(const Work& work) {
  double began = now_seconds();
  work.wait(stream_);
  waited_seconds_ += now_seconds() - began;
}

}  // namespace mtl
