#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/head_slice.h"

namespace mtl {

bool Muon::takes(const ParamSpec& spec) const {
  return spec.use == ParamUse::matrix || spec.use == ParamUse::qkv ||
         (spec.use == ParamUse::position_table && options_.takes_positions);
}

UpdateFactors Muon::factors(const StepInputs& step) const {
  return {.rate = static_cast<float>(step.lr), .decay = static_cast<float>(step.lr * step.weight_decay)};
}

float Muon::scale_of(std::int64_t out, std::int64_t in) const {
  const double ratio = double(out) / double(in);
  const double scale = options_.scale == MuonScale::spectral        ? std::sqrt(double(std::max(out, in)))
                       : options_.scale == MuonScale::shape_scaling ? std::sqrt(std::max(1.0, ratio))
                                                                    : std::sqrt(ratio);
  return static_cast<float>(scale * options_.extra_scale);
}

/// Transforms the matrix whose rows are heads [first, first + count) in each group of `whole` (1, 1, G, N, D C).
void Muon::transform_heads(Stream& stream, Arena& scratch, Tensor whole, std::int64_t first, std::int64_t count,
                           std::int64_t columns) const {
  Arena::Mark mark(scratch);
  const std::int64_t groups = whole.size(2), width = whole.size(4), rows = groups * count * width / columns;
  const Tensor matrix = scratch.make(DType::f32, {rows, columns});
  const HeadSlice heads{whole, first, count}, copy{matrix.view({1, 1, groups, count, width}), 0, count};
  copy_heads(stream, copy, heads);
  orthogonalize(stream, scratch, matrix, steps_, scale_of(rows, columns), options_.compute);
  copy_heads(stream, heads, copy);
}

void Muon::transform(Stream& stream, Arena& scratch, const ProcessGroups& groups, const ParamSpec& spec,
                     Tensor part) const {
  Arena::Mark mark(scratch);
  const std::vector<std::int64_t>& shape = spec.shape;
  const std::vector<Shard>& shards = spec.ownership.shards;
  const bool is_split = !shards.empty() && groups.over(shards.front().over).size() > 1;
  HeadSlice own{part}, in_whole{part};
  if (is_split) {  // this rank has a slice of every row of the matrix (outer, ranks x inner)
    Communicator& ranks = groups.over(shards.front().over);
    const int axis = shards.front().axis;
    const std::int64_t number = ranks.size(),
                       outer = std::accumulate(shape.begin(), shape.begin() + axis, std::int64_t{1}, std::multiplies()),
                       inner = spec.numel() / (outer * number);
    const Tensor parts = scratch.make(part.dtype(), {number, outer * inner});
    ranks.all_gather(stream, parts, part).wait(stream);
    own = {part.view({1, 1, outer, 1, inner})};
    in_whole = {scratch.make(part.dtype(), {1, 1, outer, number, inner}), ranks.rank()};
    for (std::int64_t rank = 0; rank < number; ++rank)
      copy_heads(stream, {in_whole.tensor, rank},
                 {parts.flat(rank * outer * inner, outer * inner).view(own.tensor.shape())});
  }
  if (spec.use == ParamUse::qkv && options_.splits_qkv) {
    const Tensor heads = in_whole.tensor.view({1, 1, shape[0], shape[1], shape[2] * shape[3]});
    const std::int64_t queries = shape[1] - 2;
    transform_heads(stream, scratch, heads, 0, queries, shape[3]);
    for (const std::int64_t key_or_value : {queries, queries + 1})
      transform_heads(stream, scratch, heads, key_or_value, 1, shape[3]);
  } else {
    transform_heads(stream, scratch, in_whole.tensor.view({1, 1, 1, 1, spec.numel()}), 0, 1, shape.back());
  }
  if (is_split) copy_heads(stream, own, in_whole);
}

}  // namespace mtl
