#include "optim/optimizer.h"

#include "base/hash.h"
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

void Optimizer::step(Arena& scratch, StepState* state) {
  traffic_.finish_reduction();
  gradient_norm(scratch, state);
  begin_update();
  update(state);
}

void Optimizer::gradient_norm(Arena& scratch, StepState* state) {
  Arena::Mark mark(scratch);
  Tensor sum = scratch.make(DType::f64, {1});
  // Sum by parameter instead of by bucket, so that the order does not depend on bucket sizes.
  std::vector<Tensor> gradients;
  for (int param = params_.size(); param-- > 0;) {
    const Tensor owned = params_.owned(param, kGradients);
    if (owned.numel() > 0 && params_.counts(param)) gradients.push_back(owned);
  }
  sum_of_squares(stream_, scratch, sum, gradients);
  for (const AxisSet axes : counted_over(params_.owners())) groups_.over(axes).all_reduce(stream_, sum).wait(stream_);
  finish_grad_norm(stream_, state, sum, options_.clip_grad);
}

/// Returns what one call of the rule updates: parameters that follow each other without a gap, or with stochastic
/// rounding, a single parameter. Gaps are not updated: if the ring had the gradients, another group's are left there.
std::vector<UpdateRange> Optimizer::ranges_of(const Bucket& bucket) const {
  std::vector<UpdateRange> ranges;
  if (params_.precision().stochastic_rounding) {
    for (const Segment& segment : bucket.segments) {
      if (UpdateRange range = rounded_range(segment, bucket.key.traits); range.param.numel() > 0)
        ranges.push_back(std::move(range));
    }
    return ranges;
  }
  for (const auto& [begin, count] : bucket.owned_without_gaps()) {
    const auto part = [&](const Tensor& owned) { return owned.flat(begin - bucket.owned_begin, count); };
    UpdateRange& range = ranges.emplace_back();
    range.param = part(bucket.owned_main());
    range.grad = part(bucket.owned_grads());
    for (const Tensor& state : bucket.states()) range.states.push_back(part(state));
    if (bucket.has_main_weights()) range.copy = part(bucket.owned_values());
    range.factors = bucket.key.traits.factors();
    range.decays = bucket.key.traits.decays;
  }
  return ranges;
}

/// Returns the owned part of one parameter. With stochastic rounding, an element's random bits depend on its index in
/// the entire tensor.
UpdateRange Optimizer::rounded_range(const Segment& segment, const UpdateTraits& traits) const {
  const int param = segment.param;
  UpdateRange range{.param = params_.owned(param, params_.main_row()),
                    .grad = params_.owned(param, kGradients),
                    .states = {},
                    .factors = traits.factors(),
                    .decays = traits.decays};
  if (range.param.numel() == 0) return range;
  // Every row from kFirstState on is a state, because stochastic rounding has no main weights.
  for (std::size_t row = kFirstState; row < params_.table().size(); ++row)
    range.states.push_back(params_.owned(param, row));
  const std::string site = params_.specs()[param].name + ".rounding";
  range.rounding = PhiloxKey{options_.seed, static_cast<std::uint32_t>(hash_bytes(site.data(), site.size()))};
  range.elements = params_.owned_elements(param);
  return range;
}

std::unique_ptr<StateRing> Optimizer::make_ring() const {
  const Layout& layout = params_.layout();
  if (!layout.optimizer_on_host && layout.optimizer_folder.empty()) return nullptr;
  std::vector<UpdateRange> ranges;
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {  // in the order of update()
    if (params_.buckets()[b].added_to) continue;
    for (UpdateRange& range : ranges_of(params_.buckets()[b])) ranges.push_back(std::move(range));
  }
  return std::make_unique<StateRing>(params_, ranges, stream_.target());
}

void Optimizer::update_range(const UpdateRule& rule, const UpdateRange& range, StepState* state) {
  const auto update = [&](const UpdateRange& part) { rule.update(stream_, part, state); };
  ring_ != nullptr ? ring_->update(stream_, range, update) : update(range);
}

void Optimizer::update(StepState* state) {
  if (ring_ != nullptr) ring_->begin(stream_);
  // Update the last bucket first: it holds the first layers, which the next forward needs first.
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {
    if (params_.buckets()[b].added_to) continue;  // it has no parameters
    const UpdateRule& rule = *params_.rules().rules[params_.buckets()[b].key.traits.rule];
    for (const UpdateRange& range : ranges_of(params_.buckets()[b])) update_range(rule, range, state);
    if (!params_.buckets()[b].value_buffer) traffic_.gather(b);
  }
  traffic_.forget_values();
  if (ring_ != nullptr) ring_->end(stream_);
  if (!options_.overlap.gather) traffic_.finish_gathering();
}

}  // namespace mtl
