#include "optim/param_store.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "device/copy.h"
#include "nn/init.h"

namespace mtl {

namespace {

/// Returns the parameter alignment, in elements, at which every parameter starts on a cache line in every row.
std::int64_t alignment(const std::vector<Storage>& table) {
  std::size_t narrowest = 4;
  for (const Storage& row : table) narrowest = std::min(narrowest, size_of(row.dtype));
  return static_cast<std::int64_t>(64 / narrowest);
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Returns the shape of this rank's part, including padding rows.
Shape memory_shape(const ParamSpec& spec, const RankGrid& grid) {
  Shape shape;
  for (const std::int64_t size : held_shape(spec.ownership, spec.shape, spec.padded_rows, grid)) shape.push_back(size);
  return shape;
}

/// Returns the sizes of the buffers in working memory, each as large as its largest group.
std::vector<std::int64_t> buffer_elements(const std::vector<ParamStore::Group>& groups) {
  std::vector<std::int64_t> elements;
  for (const ParamStore::Group& group : groups) {
    elements.resize(std::max<std::size_t>(elements.size(), group.buffer + 1));
    elements[group.buffer] = std::max(elements[group.buffer], group.elements);
  }
  return elements;
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

Bucket::Range range_within(const Segment& segment, std::int64_t begin, std::int64_t end) {
  begin = std::max(begin, segment.begin);
  end = std::min(end, segment.begin + segment.count);
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

}  // namespace

std::vector<Storage> storage_table(const Precision& precision, const std::optional<std::vector<StateSpec>>& states,
                                   const Layout& layout) {
  // Rows that only the optimizer accesses may be in host memory.
  const Space place = layout.optimizer_on_host ? Space::host : Space::device;
  const bool has_main = states && precision.has_main_params();
  const auto extent = [](bool is_sharded) { return is_sharded ? Extent::owned : Extent::whole; };
  std::vector<Storage> table = {
      {StorageRole::values, has_main ? "" : kParamKind, precision.compute, extent(states && layout.shards_values())}};
  if (!states) return table;
  table.push_back({StorageRole::gradients, "", precision.main_grads, extent(layout.shards_gradients())});
  for (const StateSpec& state : *states)
    table.push_back({StorageRole::states, state.name, state.dtype, Extent::owned, place});
  if (has_main) table.push_back({StorageRole::main_weights, kParamKind, precision.main_params, Extent::owned, place});
  return table;
}

Bucket::Range Bucket::owned(const Segment& segment) const { return range_within(segment, owned_begin, owned_end); }

Bucket::Range Bucket::owned_by(int index, const Segment& segment) const {
  std::int64_t length = owned_end - owned_begin;
  return range_within(segment, index * length, (index + 1) * length);
}

ParamStore::ParamStore(Device device, Precision precision, const std::optional<std::vector<StateSpec>>& states,
                       const std::function<void(const ParamVisitor&)>& visit_all, Layout layout)
    : device_(device),
      precision_(precision),
      table_(storage_table(precision, states, layout)),
      main_row_(table_.back().role == StorageRole::main_weights ? table_.size() - 1 : kValues),
      layout_(layout) {
  require(!precision.stochastic_rounding || !precision.has_main_params(),
          "stochastic rounding is for weights that updates change in place");
  std::map<std::string, int> indices;
  std::optional<int> head_unit;  // of a head that visits a tied embedding again
  visit_all([&](Param&, const ParamSpec& spec) {
    if (indices.emplace(spec.name, size()).second) {
      specs_.push_back(spec);
      specs_.back().ownership.owners = owners();
      shapes_.push_back(memory_shape(spec, layout_.grid));
    } else {
      require(spec.ownership.on_end_stages && !head_unit, "two parameters are named ", spec.name);
      head_unit = spec.unit;
    }
  });
  lay_out();
  if (head_unit && has_gradients()) add_head_gradient(*head_unit);
  allocate();
  visit_all([&](Param& param, const ParamSpec& spec) {
    param.index = indices.at(spec.name);
    param.value = values_[param.index];
    GradState& grad = spec.ownership.on_end_stages && spec.unit == head_unit ? head_grad_ : grads_[param.index];
    param.grad = has_gradients() ? &grad : nullptr;
  });
}

void ParamStore::lay_out() {
  places_.resize(specs_.size());
  std::map<BucketKey, Bucket> group;
  std::int64_t elements = 0;  // elements in the group, except in the tied embedding
  const std::int64_t align = alignment(table_);
  auto end_group = [&] {
    const std::size_t begin = buckets_.size();
    for (auto& [key, bucket] : group) add(std::move(bucket));
    if (!group.empty()) groups_.push_back({begin, buckets_.size()});
    group.clear();
    elements = 0;
  };
  for (std::size_t i = specs_.size(); i-- > 0;) {
    bool begins_unit = i + 1 == specs_.size() || specs_[i].unit != specs_[i + 1].unit;
    // A chunk's backward must complete the groups that take turns in the ring.
    const bool begins_chunk = i + 1 < specs_.size() && specs_[i].chunk != specs_[i + 1].chunk;
    if ((begins_unit && elements >= layout_.bucket_elements) || (shards_gradients() && begins_chunk)) end_group();
    BucketKey key(specs_[i]);
    Bucket& bucket = group.try_emplace(key, Bucket{key}).first->second;
    bucket.segments.push_back({.param = static_cast<int>(i), .begin = bucket.count, .count = shapes_[i].numel()});
    bucket.count += round_up(shapes_[i].numel(), align);
    if (!key.ownership.on_end_stages) elements += shapes_[i].numel();
  }
  end_group();
}

/// Pads a complete bucket, sets the range that this rank owns, and appends it to buckets_.
void ParamStore::add(Bucket bucket) {
  const Ownership& own = bucket.key.ownership;
  bucket.count = round_up(bucket.count, alignment(table_) * layout_.size(own.owners));
  const ElementRange owned = owned_range(own, bucket.count, layout_.grid, layout_.rank);
  bucket.owned_begin = owned.begin;
  bucket.owned_end = owned.end;
  bucket.main_row = main_row_;
  bucket.group = groups_.size();
  for (const Segment& segment : bucket.segments) {
    places_[segment.param] = {buckets_.size(), segment};
    std::vector<std::size_t>& of_unit = buckets_of_[specs_[segment.param].unit];
    if (of_unit.empty() || of_unit.back() != buckets_.size()) {
      of_unit.push_back(buckets_.size());
      ++bucket.units;
    }
  }
  buckets_.push_back(std::move(bucket));
}

/// Appends a bucket for the gradient of the head's use of the tied embedding. It is laid out like the embedding's.
void ParamStore::add_head_gradient(int head_unit) {
  const auto embedding =
      std::find_if(buckets_.begin(), buckets_.end(), [](const Bucket& b) { return b.key.ownership.on_end_stages; });
  Bucket bucket = *embedding;
  bucket.segments = {};
  bucket.added_to = embedding - buckets_.begin();
  ++embedding->units;
  std::vector<std::size_t>& of_head = buckets_of_[head_unit];
  of_head.insert(of_head.end(), {*bucket.added_to, buckets_.size()});
  groups_[bucket.group].end = buckets_.size() + 1;
  buckets_.push_back(std::move(bucket));
}

/// Allocates one buffer per table row. The buffer holds the row's part of all buckets, one after another.
void ParamStore::allocate() {
  for (const Storage& row : table_) {
    auto count = [&](const Bucket& bucket) {
      if (bucket.added_to && row.role != StorageRole::gradients) return std::int64_t{0};
      return row.extent == Extent::whole ? bucket.count : bucket.owned_end - bucket.owned_begin;
    };
    std::int64_t elements = 0;
    for (const Bucket& bucket : buckets_) elements += count(bucket);
    const Buffer& memory = memory_.emplace_back(device_, elements * size_of(row.dtype), row.space);
    std::size_t offset = 0;
    for (Bucket& bucket : buckets_) {
      bucket.memory.push_back(memory.tensor(row.dtype, {count(bucket)}, offset));
      offset += bucket.memory.back().bytes();
    }
  }
  if (has_gradients() && layout_.shards_gradients()) divide_work();
  value_work_ = make_work(kValues);
  if (has_gradients()) gradient_work_ = make_work(kGradients);
  values_.resize(specs_.size());
  grads_.resize(specs_.size());
  for (std::size_t param = 0; param < specs_.size(); ++param) {
    const Segment& segment = places_[param].segment;
    const Bucket& bucket = buckets_[places_[param].bucket];
    auto view = [&](const Tensor& whole) { return whole.flat(segment.begin, segment.count).view(shapes_[param]); };
    values_[param] = view(bucket.values());
    if (has_gradients()) grads_[param].tensor = view(bucket.grads());
    if (buckets_.back().added_to == places_[param].bucket) head_grad_.tensor = view(buckets_.back().grads());
  }
}

/// Divides working memory into buffers: those of the ring, which groups take in turn, and one for the group with a tied
/// embedding.
void ParamStore::divide_work() {
  int turns = 0;
  for (Group& group : groups_) {
    for (std::size_t b = group.begin; b < group.end; ++b) {
      group.elements += buckets_[b].count;
      group.is_tied |= buckets_[b].key.ownership.on_end_stages;
    }
    group.buffer = group.is_tied ? kRing : turns++ % kRing;
  }
}

/// Sets where layers access a row, values or gradients: in the row itself, if it is whole, or in working memory, which
/// this function allocates and returns.
Buffer ParamStore::make_work(std::size_t row) {
  const auto whole_of = [&](Bucket& bucket) -> Tensor& {
    return row == kValues ? bucket.whole_values : bucket.whole_grads;
  };
  const Storage& storage = table_[row];
  if (storage.extent == Extent::whole) {
    for (Bucket& bucket : buckets_) whole_of(bucket) = bucket.memory[row];
    return {};
  }
  const std::vector<std::int64_t> elements = buffer_elements(groups_);
  Buffer work(device_, sum(elements) * size_of(storage.dtype));
  for (const Group& group : groups_) {
    std::int64_t begin = std::accumulate(elements.begin(), elements.begin() + group.buffer, std::int64_t{0});
    for (std::size_t b = group.begin; b < group.end; ++b) {
      Bucket& bucket = buckets_[b];
      const std::int64_t count = bucket.added_to && row == kValues ? 0 : bucket.count;
      whole_of(bucket) = work.tensor(storage.dtype, {count}, begin * size_of(storage.dtype));
      begin += count;
      if (row == kValues)
        bucket.value_buffer = group.buffer;
      else if (!group.is_tied)
        bucket.gradient_buffer = group.buffer;
    }
  }
  return work;
}

int ParamStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Slice ParamStore::slice(int param) const {
  const ParamSpec& spec = specs_[param];
  return held(spec.ownership, spec.shape, spec.padded_rows, layout_.grid, layout_.rank);
}

Slice ParamStore::owned_slice(int param) const {
  const auto& [bucket, segment] = place(param);
  Slice out = slice(param);
  std::int64_t count = out.count();
  Bucket::Range range = buckets_[bucket].owned(segment);
  out.begin = std::min(range.begin - segment.begin, count);
  out.end = std::min(out.begin + range.count, count);
  return out;
}

Tensor ParamStore::row_part(int param, std::size_t row) const {
  const auto& [bucket, segment] = place(param);
  if (table_.at(row).extent == Extent::owned) return owned(param, row);
  return buckets_[bucket].memory[row].flat(segment.begin, segment.count);
}

Slice ParamStore::row_slice(int param, std::size_t row) const {
  return table_.at(row).extent == Extent::owned ? owned_slice(param) : slice(param);
}

Tensor ParamStore::owned(int param, std::size_t row) const {
  const auto& [number, segment] = place(param);
  const Bucket& bucket = buckets_[number];
  Bucket::Range range = bucket.owned(segment);
  const Tensor& memory = bucket.memory.at(row);
  if (range.count == 0) return memory.flat(0, 0);
  return memory.flat(range.begin - (table_[row].extent == Extent::owned ? bucket.owned_begin : 0), range.count);
}

void ParamStore::begin_step() {
  for (GradState& grad : grads_) grad.written = false;
  head_grad_.written = false;
}

void ParamStore::begin_writing(const Bucket& bucket) {
  for (const Segment& segment : bucket.segments) grads_[segment.param].written = false;
}

void ParamStore::check_all_written() const {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    require(grads_[i].written, "no gradient was computed for ", specs_[i].name);
  require(head_grad_.written || !head_grad_.tensor.exists(), "the head computed no gradient for the tied embedding");
}

ElementMap ParamStore::owned_elements(int param) const {
  const auto& [number, segment] = place(param);
  const ParamSpec& spec = specs_[param];
  const std::vector<Shard>& shards = spec.ownership.shards;
  require(shards.size() <= 1, spec.name, " is split along ", shards.size(), " axes");
  const int axis = shards.empty() ? 0 : shards[0].axis;
  std::int64_t inner = 1;  // number of elements per index along the axis
  for (std::size_t a = axis + 1; a < spec.shape.size(); ++a) inner *= spec.shape[a];
  const std::int64_t first = slice(param).offset[axis] * inner;
  return {.first = first,
          .inner = shapes_[param][axis] * inner,
          .pitch = spec.shape[axis] * inner,
          .skipped = buckets_[number].owned(segment).begin - segment.begin};
}

Device ParamStore::device_of(std::size_t row) const {
  return device_ != Device::meta && table_.at(row).space == Space::host ? Device::cpu : device_;
}

void ParamStore::initialize(std::uint64_t seed) {
  for (int i = 0; i < size(); ++i) {
    fill(i, kValues, seed);
    if (main_row_ != kValues) fill(i, main_row_, seed);
  }
}

void ParamStore::fill(int param, std::size_t row, std::uint64_t seed) {
  const Tensor tensor = row_part(param, row);
  if (tensor.raw() == nullptr || tensor.numel() == 0) return;  // on the meta device, or owned by another rank
  HostView view(device_of(row), tensor);
  initialize_param(view.tensor(), row_slice(param, row), specs_[param], seed, precision_.load);
  view.send();
}

std::size_t ParamStore::bytes(std::size_t row) const {
  std::size_t bytes = 0;
  for (const Bucket& bucket : buckets_) bytes += bucket.memory.at(row).bytes();
  return bytes;
}

}  // namespace mtl
