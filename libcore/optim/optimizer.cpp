#include "optim/optimizer.h"

#include <algorithm>
#include <iterator>

#include "base/hash.h"
#include "kernels/digest.h"
#include "kernels/elementwise.h"
#include "kernels/grad_norm.h"

namespace mtl {

Optimizer::Optimizer(ParamMemory& params, Options options, Stream& stream, const ProcessGroups& groups)
    : params_(params),
      options_(options),
      stream_(stream),
      groups_(groups),
      traffic_(params, stream, groups, options.overlap),
      ring_(make_ring()) {}

void Optimizer::reduce(Arena& scratch, StepState* state) {
  traffic_.finish_reduction();
  gradient_norm(scratch, state);
  if (options_.counts_zeros) count_zero_gradients(state);
  if (!options_.takes_digests) return;
  const Tensor sum(&state->digests.sums, DType::i64, {1});
  fill_zero(stream_, sum);
  digest(stream_, sum, {&state->grad_norm, DType::f64, {1}});  // from which the update clips
  for (int param = 0; param < params_.size(); ++param) digest(stream_, sum, params_.owned(param, kGradients));
}

void Optimizer::gradient_norm(Arena& scratch, StepState* state) {
  Arena::Mark mark(scratch);
  Tensor sum = scratch.make(DType::f64, {1});
  // Sum by parameter instead of by bucket, so that the order does not depend on bucket sizes.
  std::vector<Tensor> gradients = written(kGradients, true);
  std::ranges::reverse(gradients);
  sum_of_squares(stream_, scratch, sum, gradients);
  for (const AxisSet axes : kWriterAxes) groups_.over(axes).all_reduce(stream_, sum).wait(stream_);
  finish_grad_norm(stream_, state, sum, options_.clip_grad);
}

/// Returns a table row's elements that this rank writes to checkpoints, by parameter: over all ranks, each element of
/// the model once.
std::vector<Tensor> Optimizer::written(std::size_t row, bool with_padding) const {
  std::vector<Tensor> out;
  for (int param = 0; param < params_.size(); ++param) {
    if (!params_.writes(param)) continue;
    const Tensor owned = params_.owned(param, row);
    const std::int64_t count = with_padding ? owned.numel() : params_.owned_slice(param).count();
    if (count > 0) out.push_back(owned.flat(0, count));
  }
  return out;
}

void Optimizer::count_zero_gradients(StepState* state) {
  const Tensor count(&state->zero_gradients, DType::i64, {1});
  fill_zero(stream_, count);
  for (const Tensor& gradient : written(kGradients)) count_zeros(stream_, count, gradient);
}

void Optimizer::sum_params(Arena& scratch, StepState* state) {
  sum_of_squares(stream_, scratch, {&state->params_squares, DType::f64, {1}}, written(params_.main_row()));
}

void Optimizer::digest_state(std::int64_t* sum) {
  const Tensor out(sum, DType::i64, {1});
  fill_zero(stream_, out);
  const std::vector<Storage>& table = params_.table();
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (row == kGradients || table[row].space != Space::device) continue;
    for (int param = 0; param < params_.size(); ++param) digest(stream_, out, params_.owned(param, row));
  }
}

/// Returns what one call of the rule's update(), or prepare(), covers: parameters that follow each other without a gap,
/// or in an update with stochastic rounding, a single parameter. Gaps are not updated: if the ring had the gradients,
/// another group's are left there.
std::vector<UpdateRange> Optimizer::ranges_of(const Bucket& bucket, bool prepares) const {
  std::vector<UpdateRange> ranges;
  const bool has_states = prepares || !rule_of(bucket).is_by_matrix();
  const auto add = [&](const Bucket::Range& owned) -> UpdateRange& {
    const auto part = [&](const Tensor& row) { return row.flat(owned.begin - bucket.owned_begin, owned.count); };
    UpdateRange& range = ranges.emplace_back();
    range.grad = part(bucket.owned_grads());
    if (has_states) std::ranges::transform(bucket.states(), std::back_inserter(range.states), part);
    if (prepares) return range;
    range.param = part(bucket.owned_main());
    if (bucket.has_main_weights()) range.copy = part(bucket.owned_values());
    range.factors = bucket.key.traits.factors();
    range.decays = bucket.key.traits.decays;
    return range;
  };
  if (prepares || !params_.precision().stochastic_rounding) {
    for (const Bucket::Range& owned : bucket.owned_without_gaps()) add(owned);
    return ranges;
  }
  for (const Segment& segment : bucket.segments) {
    const Bucket::Range owned = bucket.owned(segment);
    if (owned.count == 0) continue;
    UpdateRange& range = add(owned);
    // An element's random bits depend on its index in the entire tensor.
    const std::string site = params_.specs()[segment.param].name + ".rounding";
    range.rounding = PhiloxKey{options_.seed, static_cast<std::uint32_t>(hash_bytes(site.data(), site.size()))};
    range.elements = params_.owned_elements(segment.param);
  }
  return ranges;
}

std::unique_ptr<StateRing> Optimizer::make_ring() const {
  if (std::ranges::all_of(params_.table(), [](const Storage& row) { return row.space == Space::device; }))
    return nullptr;
  std::vector<UpdateRange> ranges;
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {  // in the order of update()
    const Bucket& bucket = params_.buckets()[b];
    if (bucket.added_to) continue;
    if (rule_of(bucket).is_by_matrix()) std::ranges::move(ranges_of(bucket, true), std::back_inserter(ranges));
    std::ranges::move(ranges_of(bucket), std::back_inserter(ranges));
  }
  return std::make_unique<StateRing>(params_, ranges, stream_.target());
}

void Optimizer::for_ranges(const std::vector<UpdateRange>& ranges, const Operation& operation) {
  for (const UpdateRange& range : ranges)
    ring_ != nullptr ? ring_->update(stream_, range, operation) : operation(range);
}

/// Replaces the gradients of a bucket, of which each rank has prepared those it owns, by those of whole matrices.
void Optimizer::transform(std::size_t b, Arena& scratch) {
  const Bucket& bucket = params_.buckets()[b];
  groups_.over(bucket.key.ownership.owners).all_gather(stream_, bucket.grads(), bucket.owned_grads()).wait(stream_);
  for (const Segment& segment : bucket.segments)
    rule_of(bucket).transform(stream_, scratch, groups_, params_.specs()[segment.param], params_.grad(segment.param));
  if (params_.shards_gradients()) copy(stream_, bucket.owned_grads(), bucket.owned_in_ring());
}

void Optimizer::update(Arena& scratch, StepState* state) {
  begin_update();
  if (options_.takes_digests) digest_state(&state->digests.state_before);
  if (ring_ != nullptr) ring_->begin(stream_);
  // Update the last bucket first: it holds the first layers, which the next forward needs first.
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {
    const Bucket& bucket = params_.buckets()[b];
    if (bucket.added_to) continue;  // it has no parameters
    const UpdateRule& rule = rule_of(bucket);
    if (rule.is_by_matrix()) {
      for_ranges(ranges_of(bucket, true), [&](const UpdateRange& range) { rule.prepare(stream_, range, state); });
      transform(b, scratch);
    }
    for_ranges(ranges_of(bucket), [&](const UpdateRange& range) { rule.update(stream_, range, state); });
    if (!bucket.value_buffer) traffic_.gather(b);
  }
  if (ring_ != nullptr) ring_->end(stream_);
  if (options_.takes_digests) digest_state(&state->digests.state_after);
  if (!options_.overlap.gather) traffic_.finish_gathering();
}

}  // namespace mtl
