#include "optim/param_memory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "nn/init.h"

namespace mtl {

namespace {

/// Returns the parameter alignment, in elements, at which every parameter starts on a cache line in every row.
std::int64_t alignment(const std::vector<Storage>& table) {
  std::size_t narrowest = 4;
  for (const Storage& row : table) narrowest = std::min(narrowest, size_of(row.dtype));
  return static_cast<std::int64_t>(64 / narrowest);
}

/// Returns the shape of this rank's part, including padding rows.
Shape memory_shape(const ParamSpec& spec, const RankGrid& grid) {
  Shape shape;
  for (const std::int64_t size : held_shape(spec.ownership, spec.shape, spec.padded_rows, grid)) shape.push_back(size);
  return shape;
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

}  // namespace

std::vector<Storage> storage_table(const Precision& precision, const RuleSet& rules, const Layout& layout,
                                   const ParamStorage& storage) {
  // Rows that only the optimizer accesses may be in host memory or in files.
  const Space place = !storage.optimizer_folder.empty() ? Space::file
                      : storage.optimizer_on_host       ? Space::host
                                                        : Space::device;
  const bool has_main = !rules.empty() && precision.has_main_params();
  const auto extent = [](bool is_sharded) { return is_sharded ? Extent::owned : Extent::whole; };
  std::vector<Storage> table = {{StorageRole::values, has_main ? "" : kParamKind, precision.compute,
                                 extent(!rules.empty() && layout.shards_values())}};
  if (rules.empty()) return table;
  table.push_back({StorageRole::gradients, "", precision.main_grads, extent(layout.shards_gradients())});
  for (std::size_t rule = 0; rule < rules.rules.size(); ++rule)
    for (const StateSpec& state : rules.rules[rule]->states(precision))
      table.push_back({StorageRole::states, state.name, state.dtype, Extent::owned, place, static_cast<int>(rule)});
  if (has_main) table.push_back({StorageRole::main_weights, kParamKind, precision.main_params, Extent::owned, place});
  return table;
}

ParamMemory::ParamMemory(Device device, Precision precision, RuleSet rules,
                         const std::function<void(const ParamVisitor&)>& visit_all, Layout layout,
                         const ParamStorage& storage)
    : device_(device),
      precision_(precision),
      rules_(std::move(rules)),
      table_(storage_table(precision, rules_, layout, storage)),
      main_row_(table_.back().role == StorageRole::main_weights ? table_.size() - 1 : kValues),
      layout_(std::move(layout)) {
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
  if (!has_gradients()) head_unit.reset();
  parts_ = lay_out_buckets(specs_, shapes_, alignment(table_), layout_, storage.bucket_elements, rules_, head_unit);
  allocate(storage.optimizer_folder);
  visit_all([&](Param& param, const ParamSpec& spec) {
    param.index = indices.at(spec.name);
    param.value = values_[param.index];
    GradState& grad = spec.ownership.on_end_stages && spec.unit == head_unit ? head_grad_ : grads_[param.index];
    param.grad = has_gradients() ? &grad : nullptr;
  });
}

/// Allocates one buffer per table row, in `folder` if the row is in a file. The buffer holds the row's part of all
/// buckets, one after another.
void ParamMemory::allocate(const std::string& folder) {
  for (const Storage& row : table_) {
    auto count = [&](const Bucket& bucket) {
      if (bucket.added_to && row.role != StorageRole::gradients) return std::int64_t{0};
      if (!is_row_of(bucket, row)) return std::int64_t{0};
      return row.extent == Extent::whole ? bucket.count : bucket.owned_end - bucket.owned_begin;
    };
    std::int64_t elements = 0;
    for (const Bucket& bucket : parts_.buckets) elements += count(bucket);
    const Buffer& memory = memory_.emplace_back(device_, elements * size_of(row.dtype), row.space, folder);
    std::size_t offset = 0;
    for (Bucket& bucket : parts_.buckets) {
      bucket.main_row = main_row_;
      if (row.role == StorageRole::states && is_row_of(bucket, row) && bucket.state_rows++ == 0)
        bucket.first_state = bucket.memory.size();
      bucket.memory.push_back(memory.tensor(row.dtype, {count(bucket)}, offset));
      offset += bucket.memory.back().bytes();
    }
  }
  value_work_ = make_work(kValues);
  if (has_gradients()) gradient_work_ = make_work(kGradients);
  values_.resize(specs_.size());
  grads_.resize(specs_.size());
  for (std::size_t param = 0; param < specs_.size(); ++param) {
    const Segment& segment = parts_.places[param].segment;
    const Bucket& bucket = parts_.buckets[parts_.places[param].bucket];
    auto view = [&](const Tensor& whole) { return whole.flat(segment.begin, segment.count).view(shapes_[param]); };
    values_[param] = view(bucket.values());
    if (has_gradients()) grads_[param].tensor = view(bucket.grads());
    if (parts_.buckets.back().added_to == parts_.places[param].bucket)
      head_grad_.tensor = view(parts_.buckets.back().grads());
  }
}

/// Sets where layers access a row, values or gradients: in the row itself, if it is whole, or in working memory, which
/// this function allocates and returns.
Buffer ParamMemory::make_work(std::size_t row) {
  const auto whole_of = [&](Bucket& bucket) -> Tensor& {
    return row == kValues ? bucket.whole_values : bucket.whole_grads;
  };
  const Storage& storage = table_[row];
  if (storage.extent == Extent::whole) {
    for (Bucket& bucket : parts_.buckets) whole_of(bucket) = bucket.memory[row];
    return {};
  }
  const std::vector<std::int64_t> elements = buffer_elements(parts_.groups);
  Buffer work(device_, sum(elements) * size_of(storage.dtype));
  for (const UnitGroup& group : parts_.groups) {
    std::int64_t begin = std::accumulate(elements.begin(), elements.begin() + group.buffer, std::int64_t{0});
    for (std::size_t b = group.begin; b < group.end; ++b) {
      Bucket& bucket = parts_.buckets[b];
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

Slice ParamMemory::slice(int param) const {
  const ParamSpec& spec = specs_[param];
  return held(spec.ownership, spec.shape, spec.padded_rows, layout_.grid, layout_.rank);
}

Slice ParamMemory::owned_slice(int param) const {
  const auto& [bucket, segment] = place(param);
  Slice out = slice(param);
  std::int64_t count = out.count();
  Bucket::Range range = parts_.buckets[bucket].owned(segment);
  out.begin = std::min(range.begin - segment.begin, count);
  out.end = std::min(out.begin + range.count, count);
  return out;
}

Tensor ParamMemory::row_part(int param, std::size_t row) const {
  const auto& [bucket, segment] = place(param);
  if (table_.at(row).extent == Extent::owned) return owned(param, row);
  return parts_.buckets[bucket].memory[row].flat(segment.begin, segment.count);
}

Slice ParamMemory::row_slice(int param, std::size_t row) const {
  if (!holds(param, row)) {
    Slice none = owned_slice(param);
    none.end = none.begin;
    return none;
  }
  return table_.at(row).extent == Extent::owned ? owned_slice(param) : slice(param);
}

Tensor ParamMemory::owned(int param, std::size_t row) const {
  const auto& [number, segment] = place(param);
  const Bucket& bucket = parts_.buckets[number];
  Bucket::Range range = bucket.owned(segment);
  const Tensor& memory = bucket.memory.at(row);
  if (range.count == 0 || !holds(param, row)) return memory.flat(0, 0);
  return memory.flat(range.begin - (table_[row].extent == Extent::owned ? bucket.owned_begin : 0), range.count);
}

void ParamMemory::begin_step() {
  for (GradState& grad : grads_) grad.written = false;
  head_grad_.written = false;
}

void ParamMemory::begin_writing(const Bucket& bucket) {
  for (const Segment& segment : bucket.segments) grads_[segment.param].written = false;
}

void ParamMemory::check_all_written() const {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    require(grads_[i].written, "no gradient was computed for ", specs_[i].name);
  require(head_grad_.written || !head_grad_.tensor.exists(), "the head computed no gradient for the tied embedding");
}

ElementMap ParamMemory::owned_elements(int param) const {
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
          .skipped = parts_.buckets[number].owned(segment).begin - segment.begin};
}

Location ParamMemory::location_of(std::size_t row) const {
  if (FileMemory* file = memory_.at(row).file(); file != nullptr) return {Device::cpu, file};
  return device_ != Device::meta && table_.at(row).space == Space::host ? Device::cpu : device_;
}

FileMemory* ParamMemory::file_of(const Tensor& part) const {
  const auto* at = static_cast<const std::byte*>(part.raw());
  for (const Buffer& row : memory_) {
    const auto* begin = static_cast<const std::byte*>(row.data());
    if (row.file() != nullptr && at >= begin && at < begin + row.bytes()) return row.file();
  }
  fail(Exit::failure, "no file of the optimizer's state contains this range");
}

void ParamMemory::initialize(std::uint64_t seed) {
  for (int i = 0; i < size(); ++i) {
    // Rows of the same slice take the same random numbers.
    if (main_row_ != kValues && row_slice(i, kValues) == row_slice(i, main_row_)) {
      fill(i, {kValues, main_row_}, seed);
    } else {
      fill(i, {kValues}, seed);
      if (main_row_ != kValues) fill(i, {main_row_}, seed);
    }
  }
}

/// Fills a parameter's part of these rows, which all hold the same slice.
void ParamMemory::fill(int param, const std::vector<std::size_t>& rows, std::uint64_t seed) {
  std::deque<HostView> views;
  std::vector<Tensor> values;
  for (std::size_t row : rows) {
    const Tensor tensor = row_part(param, row);
    if (tensor.raw() == nullptr || tensor.numel() == 0) return;  // on the meta device, or owned by another rank
    values.push_back(views.emplace_back(location_of(row), tensor).tensor());
  }
  initialize_param(values, row_slice(param, rows[0]), specs_[param], seed, precision_.load);
  for (const HostView& view : views) view.send();
}

std::size_t ParamMemory::bytes(std::size_t row) const {
  std::size_t bytes = 0;
  for (const Bucket& bucket : parts_.buckets) bytes += bucket.memory.at(row).bytes();
  return bytes;
}

}  // namespace mtl
