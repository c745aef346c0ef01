#include "optim/param_store.h"

#include <algorithm>

#include "nn/init.h"

namespace mtl {

namespace {

constexpr std::int64_t kAlign = 16;  // elements: every parameter starts on a cache line

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// This rank's part of a parameter, padding rows included.
Shape memory_shape(const ParamSpec& spec, const StoreLayout& layout) {
  Shape shape;
  for (int axis = 0; axis < static_cast<int>(spec.shape.size()); ++axis) {
    std::int64_t size = spec.shape[static_cast<std::size_t>(axis)];
    if (axis == 0 && spec.padded_rows > 0) size = spec.padded_rows;
    if (axis == spec.shard_axis) {
      require(size % layout.tensor_size == 0, spec.name, ": ", size, " cannot be shared out to ", layout.tensor_size,
              " tensor-parallel ranks");
      size /= layout.tensor_size;
    }
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

StoreLayout store_layout(const ProcessGroups& groups, std::int64_t bucket_elements) {
  StoreLayout layout;
  layout.tensor_rank = groups.tensor->rank();
  layout.tensor_size = groups.tensor->size();
  layout.shard_rank = groups.shards->rank();
  layout.shard_size = groups.shards->size();
  layout.bucket_elements = bucket_elements;
  return layout;
}

std::int64_t ParamSpec::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product *= size;
  return product;
}

Bucket::Range Bucket::owned(const Segment& segment) const {
  std::int64_t begin = std::max(segment.begin, owned_begin);
  std::int64_t end = std::min(segment.begin + segment.count, owned_end);
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

ParamStore::ParamStore(Device device, Precision precision, bool with_gradients,
                       const std::function<void(const ParamVisitor&)>& visit_all, StoreLayout layout)
    : with_gradients_(with_gradients), layout_(layout) {
  require(precision == kPrecisionFp32, "this version trains in fp32");
  visit_all([&](Param&, const ParamSpec& spec) {
    require(find(spec.name) < 0, "two parameters are named ", spec.name);
    specs_.push_back(spec);
    // What every tensor-parallel rank has a copy of, the first of them counts.
    if (spec.shard_axis < 0 && layout.tensor_rank > 0) specs_.back().counts_in_norm = false;
    shapes_.push_back(memory_shape(spec, layout));
  });
  lay_out(device);
  int next = 0;
  visit_all([&](Param& param, const ParamSpec&) {
    auto at = static_cast<std::size_t>(next);
    param.value = values_[at];
    param.grad = with_gradients_ ? &grads_[at] : nullptr;
    param.index = next++;
  });
}

void ParamStore::lay_out(Device device) {
  values_.resize(specs_.size());
  grads_.resize(specs_.size());
  for (GradGroup group : {GradGroup::data, GradGroup::data_and_tensor, GradGroup::data_and_tied}) {
    Bucket bucket;
    auto close = [&] {
      if (!bucket.segments.empty()) allocate(device, bucket);
      bucket = {};
    };
    for (std::size_t i = specs_.size(); i-- > 0;) {
      if (specs_[i].grad_group != group) continue;
      bucket.group = group;
      bucket.segments.push_back({static_cast<int>(i), bucket.count, shapes_[i].numel()});
      bucket.count += round_up(shapes_[i].numel(), kAlign);
      if (bucket.count >= layout_.bucket_elements) close();
    }
    close();
  }
}

void ParamStore::allocate(Device device, Bucket& bucket) {
  bucket.count = round_up(bucket.count, kAlign * layout_.shard_size);
  std::int64_t owned = bucket.count / layout_.shard_size;
  bucket.owned_begin = layout_.shard_rank * owned;
  bucket.owned_end = bucket.owned_begin + owned;
  auto make = [&](std::int64_t count) -> Tensor {
    memory_.emplace_back(device, static_cast<std::size_t>(count) * sizeof(float));
    return memory_.back().tensor(DType::f32, {count});
  };
  bucket.values = make(bucket.count);
  if (with_gradients_) {
    bucket.grads = make(bucket.count);
    bucket.exp_avg = make(owned);
    bucket.exp_avg_sq = make(owned);
  }
  for (const Segment& segment : bucket.segments) {
    auto at = static_cast<std::size_t>(segment.param);
    values_[at] = bucket.values.flat(segment.begin, segment.count).view(shapes_[at]);
    if (with_gradients_) grads_[at].tensor = bucket.grads.flat(segment.begin, segment.count).view(shapes_[at]);
  }
  buckets_.push_back(std::move(bucket));
}

int ParamStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Slice ParamStore::slice(int param) const {
  const ParamSpec& spec = specs_[static_cast<std::size_t>(param)];
  if (spec.shard_axis < 0) return whole_slice(spec.shape);
  if (spec.padded_rows == 0 || spec.shard_axis != 0)
    return axis_slice(spec.shape, spec.shard_axis, layout_.tensor_rank, layout_.tensor_size);
  // Of padded rows the last ranks have fewer real ones, or none.
  std::int64_t rows = spec.padded_rows / layout_.tensor_size;
  std::int64_t begin = std::min(layout_.tensor_rank * rows, spec.shape[0]);
  std::vector<std::int64_t> size = spec.shape;
  size[0] = std::min(begin + rows, spec.shape[0]) - begin;
  Slice slice = whole_slice(size);
  slice.offset[0] = begin;
  return slice;
}

Slice ParamStore::owned_slice(int param) const {
  auto [bucket, segment] = place(param);
  Slice out = slice(param);
  std::int64_t count = out.count();
  Bucket::Range range = bucket->owned(*segment);
  out.begin = std::min(range.begin - segment->begin, count);
  out.end = std::min(out.begin + range.count, count);
  return out;
}

ParamStore::Place ParamStore::place(int param) const {
  for (const Bucket& bucket : buckets_) {
    for (const Segment& segment : bucket.segments) {
      if (segment.param == param) return {&bucket, &segment};
    }
  }
  fail(Exit::failure, "no parameter number ", param);
}

Tensor ParamStore::owned_value(int param) const {
  auto [bucket, segment] = place(param);
  Bucket::Range range = bucket->owned(*segment);
  return bucket->values.flat(range.begin, range.count);
}

Tensor ParamStore::owned_moments(int param, const Tensor Bucket::*moments) const {
  require(with_gradients_, "this model was loaded without optimizer state");
  auto [bucket, segment] = place(param);
  Bucket::Range range = bucket->owned(*segment);
  if (range.count == 0) return (bucket->*moments).flat(0, 0);
  return (bucket->*moments).flat(range.begin - bucket->owned_begin, range.count);
}

Tensor ParamStore::exp_avg(int param) const { return owned_moments(param, &Bucket::exp_avg); }
Tensor ParamStore::exp_avg_sq(int param) const { return owned_moments(param, &Bucket::exp_avg_sq); }

void ParamStore::begin_step() {
  for (GradState& grad : grads_) grad.written = false;
}

void ParamStore::check_all_written() const {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    require(grads_[i].written, "no gradient was computed for ", specs_[i].name);
}

void ParamStore::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (values_[i].raw() != nullptr) initialize_param(values_[i], slice(static_cast<int>(i)), specs_[i], seed);
  }
}

std::size_t ParamStore::value_bytes() const {
  std::size_t bytes = 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.values.bytes();
  return bytes;
}

std::size_t ParamStore::grad_bytes() const { return with_gradients_ ? value_bytes() : 0; }

std::size_t ParamStore::moment_bytes() const {
  std::size_t bytes = 0;
  if (!with_gradients_) return 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.exp_avg.bytes() + bucket.exp_avg_sq.bytes();
  return bytes;
}

}  // namespace mtl
