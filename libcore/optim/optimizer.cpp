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
      ring_(params.layout().optimizer_on_host ? std::make_unique<StateRing>(params) : nullptr) {}

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
  finish_grad_norm(stream_, state, sum, options_.clip_grad, options_.rule.options);
}

void Optimizer::update_bucket(const Bucket& bucket, StepState* state) {
  if (params_.precision().stochastic_rounding) {
    for (const Segment& segment : bucket.segments) update_rounded(segment, bucket.key.decays, state);
    return;
  }
  const auto states = bucket.states();
  update_range({.param = bucket.owned_main(),
                .grad = bucket.owned_grads(),
                .states = {states.begin(), states.end()},
                .copy = bucket.has_main_weights() ? bucket.owned_values() : Tensor(),
                .decays = bucket.key.decays},
               state);
}

void Optimizer::update_range(const UpdateRange& range, StepState* state) {
  const auto rule = [&](const UpdateRange& part) { options_.rule.update(stream_, part, state); };
  ring_ != nullptr ? ring_->update(stream_, range, rule) : rule(range);
}

/// Updates one parameter with stochastic rounding. An element's random bits depend on its index in the entire tensor.
void Optimizer::update_rounded(const Segment& segment, bool decays, StepState* state) {
  const int param = segment.param;
  Tensor owned = params_.owned(param, params_.main_row());
  if (owned.numel() == 0) return;
  UpdateRange range{.param = owned, .grad = params_.owned(param, kGradients), .states = {}, .decays = decays};
  // Every row from kFirstState on is a state, because stochastic rounding has no main weights.
  for (std::size_t row = kFirstState; row < params_.table().size(); ++row)
    range.states.push_back(params_.owned(param, row));
  const std::string site = params_.specs()[param].name + ".rounding";
  range.rounding = PhiloxKey{options_.seed, static_cast<std::uint32_t>(hash_bytes(site.data(), site.size()))};
  range.elements = params_.owned_elements(param);
  update_range(range, state);
}

void Optimizer::update(StepState* state) {
  if (ring_ != nullptr) ring_->begin(stream_);
  // Update the last bucket first: it holds the first layers, which the next forward needs first.
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {
    if (params_.buckets()[b].added_to) continue;  // it has no parameters
    update_bucket(params_.buckets()[b], state);
    if (!params_.buckets()[b].value_buffer) traffic_.gather(b);
  }
  traffic_.forget_values();
  if (ring_ != nullptr) ring_->end(stream_);
  if (!options_.overlap.gather) traffic_.finish_gathering();
}

}  // namespace mtl
