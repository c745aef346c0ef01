#include "optim/param_store.h"

#include <cmath>

#include "base/hash.h"
#include "nn/init.h"

namespace mtl {

namespace {

Shape memory_shape(const ParamSpec& spec) {
  Shape shape;
  for (std::size_t axis = 0; axis < spec.shape.size(); ++axis) {
    shape.push_back(axis == 0 && spec.padded_rows > 0 ? spec.padded_rows : spec.shape[axis]);
  }
  return shape;
}

constexpr std::int64_t kAlign = 16;  // elements: every parameter starts on a cache line

}  // namespace

std::int64_t ParamSpec::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product *= size;
  return product;
}

ParamStore::ParamStore(Device device, Precision precision, bool with_gradients,
                       const std::function<void(const ParamVisitor&)>& visit_all)
    : with_gradients_(with_gradients) {
  require(precision == kPrecisionFp32, "this version trains in fp32");
  visit_all([&](Param&, const ParamSpec& spec) {
    require(find(spec.name) < 0, "two parameters are named ", spec.name);
    specs_.push_back(spec);
    shapes_.push_back(memory_shape(spec));
  });
  lay_out(device);
  int next = 0;
  visit_all([&](Param& param, const ParamSpec&) {
    auto at = static_cast<std::size_t>(next++);
    param.value = values_[at];
    param.grad = with_gradients_ ? &grads_[at] : nullptr;
  });
}

void ParamStore::lay_out(Device device) {
  values_.resize(specs_.size());
  grads_.resize(specs_.size());
  for (GradGroup group : {GradGroup::data, GradGroup::data_and_tied}) {
    Bucket bucket;
    bucket.group = group;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].grad_group != group) continue;
      bucket.segments.push_back({static_cast<int>(i), bucket.count, shapes_[i].numel()});
      bucket.count += (shapes_[i].numel() + kAlign - 1) / kAlign * kAlign;
    }
    if (bucket.segments.empty()) continue;
    bucket.owned_end = bucket.count;  // one data-parallel rank owns everything
    auto allocate = [&]() -> Tensor {
      memory_.emplace_back(device, static_cast<std::size_t>(bucket.count) * sizeof(float));
      return memory_.back().tensor(DType::f32, {bucket.count});
    };
    bucket.values = allocate();
    if (with_gradients_) {
      bucket.grads = allocate();
      bucket.exp_avg = allocate();
      bucket.exp_avg_sq = allocate();
    }
    for (const Segment& segment : bucket.segments) {
      auto at = static_cast<std::size_t>(segment.param);
      values_[at] = bucket.values.flat(segment.begin, segment.count).view(shapes_[at]);
      if (with_gradients_) grads_[at].tensor = bucket.grads.flat(segment.begin, segment.count).view(shapes_[at]);
    }
    buckets_.push_back(std::move(bucket));
  }
}

int ParamStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Slice ParamStore::slice(int param) const { return whole_slice(specs_[static_cast<std::size_t>(param)].shape); }

Tensor ParamStore::moment(int param, bool squared) const {
  require(with_gradients_, "this model was loaded without optimizer state");
  for (const Bucket& bucket : buckets_) {
    for (const Segment& segment : bucket.segments) {
      if (segment.param != param) continue;
      const Tensor& moments = squared ? bucket.exp_avg_sq : bucket.exp_avg;
      return moments.flat(segment.begin - bucket.owned_begin, segment.count)
          .view(shapes_[static_cast<std::size_t>(param)]);
    }
  }
  fail(Exit::failure, "no parameter number ", param);
}

Tensor ParamStore::exp_avg(int param) const { return moment(param, false); }
Tensor ParamStore::exp_avg_sq(int param) const { return moment(param, true); }

void ParamStore::begin_step() {
  for (GradState& grad : grads_) grad.written = false;
}

void ParamStore::check_all_written() const {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    require(grads_[i].written, "no gradient was computed for ", specs_[i].name);
}

void ParamStore::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (values_[i].raw() != nullptr) initialize_param(values_[i], specs_[i], seed);
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
