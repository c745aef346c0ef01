#include "models/model_source.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files.h"
#include "base/find.h"
#include "base/mapped_faults.h"
#include "device/copy.h"
#include "models/canonical.h"
#include "models/tensor_reader.h"
#include "nn/model_params.h"

namespace mtl {

void ModelSource::trim_vocabulary(std::optional<std::int64_t> tokens, Console& console) {
  if (!reader_->has_padded_vocabulary) return;
  std::int64_t& rows = reader_->config.vocab_size;
  if (!tokens) {
    console.warn(cat(folder(), ": mtl keeps all ", with_commas(rows),
                     " rows of the token embedding, of which the last may be padding; to drop padding, set the size "
                     "with --vocab-size or a tokenizer"));
    return;
  }
  require(*tokens >= 1, "trim_vocabulary: ", *tokens, " tokens");
  if (*tokens > rows) return;
  for (SavedTensor& tensor : reader_->tensors) {
    if (ends_with(tensor.name, ".embedding.tokens.weight") || ends_with(tensor.name, ".output.weight"))
      tensor.shape[0] = *tokens;
  }
  rows = *tokens;
  reader_->has_padded_vocabulary = false;
}

void ModelSource::extend_vocabulary(std::int64_t tokens, NewRows rows, std::uint64_t seed) {
  reader_ = extended_vocabulary(std::move(reader_), tokens, rows, seed);
}

std::string ModelSource::identity() const {
  return read_mapped([&] { return reader_->identity(); });
}

std::vector<NonfiniteTensor> ModelSource::find_nonfinite(const std::string& name) const {
  return read_mapped([&] { return reader_->find_nonfinite(find_tensor(name) - tensors().data()); });
}

void ModelSource::verify() const {
  read_mapped([&] { reader_->verify(); });
}

const SavedTensor* ModelSource::find_tensor(const std::string& name) const {
  return find_or_null(tensors(), name, &SavedTensor::name);
}

void ModelSource::read(const std::string& name, const Slice& slice, std::span<std::byte> out) const {
  const SavedTensor* tensor = find_tensor(name);
  require(tensor != nullptr, folder(), ": no tensor '", name, "'");
  std::size_t bytes = slice.count() * bits_of(tensor->dtype) / 8;
  require(out.size() == bytes, "ModelSource::read: a buffer of ", out.size(), " bytes for ", bytes);
  read_mapped([&] { reader_->read(tensor - tensors().data(), slice, out); });
}

namespace {

/// Where one parameter's elements go in memory.
struct Target {
  std::string name;  // including the kind: "param.NAME"
  Slice slice;
  Tensor memory;                  // may have padding rows beyond slice.count()
  Location location;              // of `memory`
  std::vector<StoredDType> path;  // elements are rounded to each dtype in turn; the last is that of `memory`
};

/// Throws Error(bad_data), which names the tensor in the file, if an element of tensors[at] is NaN or infinite.
void refuse_nonfinite(const TensorReader& reader, std::size_t at, std::span<const std::byte> stored) {
  if (count_nonfinite(reader.tensors[at].dtype, stored) == 0) return;
  const NonfiniteTensor found = reader.find_nonfinite(at).at(0);
  refuse_tensor(found.file, found.name,
                "contains NaN or infinity, because the file is damaged or the training diverged; load another model");
}

/// Reads a target's elements and rounds them to each dtype in target.path. Rejects elements that are not finite, and
/// finite elements that become infinite.
void convert_target(const TensorReader& reader, std::size_t at, const Target& target, std::vector<std::byte>& buffer,
                    std::span<std::byte> out) {
  const StoredDType stored = reader.tensors[at].dtype, dtype = target.path.back();
  buffer.resize(target.slice.count() * bits_of(stored) / 8);
  reader.read(at, target.slice, buffer);
  convert_through(stored, buffer, target.path, out);
  refuse_nonfinite(reader, at, buffer);
  if (const std::size_t loaded = count_nonfinite(dtype, out); loaded > 0) {
    fail(Exit::bad_data, reader.folder, ": tensor '", target.name, "': ", torch_name_of(dtype), " cannot represent ",
         with_commas(loaded),
         " of its elements, which would become infinite; use bfloat16, which has the range of float32");
  }
}

/// First checks all targets' names and shapes, then verifies the hashes of their slices, and then copies the elements.
void load_targets(const TensorReader& reader, const ParamMemory& params, const std::vector<Target>& targets) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < reader.tensors.size(); ++i) index[reader.tensors[i].name] = i;
  std::map<std::string, const ParamSpec*> specs;
  for (const ParamSpec& spec : params.specs()) specs[spec.name] = &spec;
  std::vector<std::string> problems;
  for (const Target& target : targets) {
    auto found = index.find(target.name);
    const ParamSpec& spec = *specs.at(target.name.substr(target.name.find('.') + 1));
    if (found == index.end()) {
      problems.push_back(cat("tensor '", target.name, "' is missing"));
    } else if (reader.tensors[found->second].shape != spec.shape) {
      problems.push_back(cat("tensor '", target.name, "' has shape ", shape_text(reader.tensors[found->second].shape),
                             ", but this model needs ", shape_text(spec.shape)));
    }
  }
  if (!problems.empty()) fail_problems(reader.folder, std::move(problems));
  reader.verify_companions();
  for (const Target& target : targets) reader.verify_slice(index.at(target.name), target.slice);
  std::vector<std::byte> buffer;
  for (const Target& target : targets) {
    std::size_t at = index.at(target.name);
    require(target.memory.numel() >= target.slice.count(), "parameter '", target.name,
            "' has less memory than elements");
    const HostView memory(target.location, target.memory.flat(0, target.slice.count()));
    std::span<std::byte> out(static_cast<std::byte*>(memory.tensor().raw()), memory.tensor().bytes());
    const StoredDType stored = reader.tensors[at].dtype;
    if (std::ranges::all_of(target.path, [&](StoredDType step) { return step == stored; })) {
      reader.read(at, target.slice, out);
      refuse_nonfinite(reader, at, out);
    } else {
      convert_target(reader, at, target, buffer, out);
    }
    memory.send();
  }
}

}  // namespace

struct ModelSource::Row {
  std::size_t row;                // a row in ParamMemory::table()
  std::string kind;               // of the tensors that fill the row
  std::vector<StoredDType> path;  // Target::path
};

void ModelSource::load(ParamMemory& params, const std::vector<Row>& rows) const {
  std::vector<Target> targets;
  for (const Row& from : rows) {
    for (int i = 0; i < params.size(); ++i) {
      Slice slice = params.row_slice(i, from.row);
      if (slice.count() == 0) continue;
      const std::string& name = params.specs()[i].name;
      targets.push_back({.name = cat(from.kind, ".", name),
                         .slice = std::move(slice),
                         .memory = params.row_part(i, from.row),
                         .location = params.location_of(from.row),
                         .path = from.path});
    }
  }
  read_mapped([&] { load_targets(*reader_, params, targets); });
}

/// Loads the main weights, if there are any, and the values. Rounds elements to each dtype in `path`, then to the main
/// weights' dtype and, for the values, then to their dtype. An update rounds in the same way.
void ModelSource::load_weights(ParamMemory& params, std::vector<StoredDType> path) const {
  std::vector<Row> rows;
  auto add = [&](std::size_t row) {
    path.push_back(stored_dtype_of(params.table()[row].dtype));
    rows.push_back({row, kParamKind, path});
  };
  add(params.main_row());
  if (params.main_row() != kValues) add(kValues);
  load(params, rows);
}

void ModelSource::load_values(ParamMemory& params) const { load_weights(params, {}); }

void ModelSource::load_initial_values(ParamMemory& params) const {
  const DType dtype = params.precision().load;
  if (dtype == DType::f32) return load_values(params);
  load_weights(params, {stored_dtype_of(dtype)});
}

std::string ModelSource::other_rules(const RuleSet& rules) const {
  if (!has_optimizer()) return "";
  std::set<std::string> stored;
  for (const SavedTensor& tensor : reader_->tensors) stored.insert(tensor.name);
  for (const ParamSpec& spec : model_params(config())) {
    const UpdateRule& rule = rules.rule_of(spec);
    for (const StateSpec& state : rule.states({}))
      if (!stored.contains(cat(state.name, ".", spec.name)))
        return cat(folder(), ": the optimizer state is of another --optimizer than ", rules.rules.back()->name(),
                   rules.rules.size() > 1 && spec.use == ParamUse::position_table
                       ? ", or of another --muon-no-position-embedding: "
                       : ": ",
                   spec.name, " has no ", state.name);
  }
  return "";
}

void ModelSource::load_optimizer(ParamMemory& params) const {
  if (!has_optimizer())
    fail_at(Exit::bad_data, folder(), "the model has only weights; start from them with --finetune");
  std::vector<Row> rows;
  for (std::size_t row = 0; row < params.table().size(); ++row) {
    const Storage& storage = params.table()[row];
    if (storage.role == StorageRole::states) rows.push_back({row, storage.kind, {stored_dtype_of(storage.dtype)}});
  }
  load(params, rows);
}

}  // namespace mtl
