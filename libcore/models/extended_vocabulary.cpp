#include "models/extended_vocabulary.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/str.h"
#include "models/tensor_reader.h"
#include "nn/init.h"
#include "nn/model_params.h"
#include "optim/update_rule.h"

namespace mtl {

namespace {

/// The parameters with one row (C) per token, (V, C).
constexpr std::string_view kTables[] = {"param.embedding.tokens.weight", "param.output.weight"};

constexpr std::int64_t kElementsPerRead = 1 << 18;

class ExtendedVocabulary : public TensorReader {
 public:
  ExtendedVocabulary(std::unique_ptr<TensorReader> base, std::int64_t tokens, NewRows rows, std::uint64_t seed)
      : TensorReader(*base), base_(std::move(base)), old_tokens_(config.vocab_size), rows_(rows), seed_(seed) {
    require(tokens > old_tokens_, "extended_vocabulary: ", tokens, " tokens, but the model has ", old_tokens_);
    config.vocab_size = tokens;
    has_padded_vocabulary = false;
    for (SavedTensor& tensor : tensors) {
      if (is_table(tensor)) tensor.shape[0] = tokens;
    }
  }

  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const override {
    const Slice old = old_part(index, slice);
    const std::size_t old_bytes = old.count() * bits_of(tensors[index].dtype) / 8;
    if (old.count() > 0) base_->read(index, old, out.first(old_bytes));
    bytes_read_ = base_->bytes_read();
    Slice added = slice;
    added.begin = std::max(slice.begin, old.end);
    if (added.begin < added.end) fill(index, added, out.subspan(old_bytes));
  }
  std::vector<NonfiniteTensor> find_nonfinite(std::size_t index) const override { return base_->find_nonfinite(index); }
  std::string stored_name(std::size_t index) const override { return base_->stored_name(index); }
  void verify_slice(std::size_t index, const Slice& slice) const override {
    if (const Slice old = old_part(index, slice); old.count() > 0) base_->verify_slice(index, old);
  }
  void verify_companions() const override { base_->verify_companions(); }
  void verify() const override { base_->verify(); }
  std::string identity() const override { return cat(base_->identity(), "\nextended to ", config.vocab_size); }

 private:
  static bool is_table(const SavedTensor& tensor) { return std::ranges::count(kTables, tensor.name) > 0; }

  /// Returns the elements of a slice that the files have. A table's old rows are the first in every box, so that they
  /// keep their numbers.
  Slice old_part(std::size_t index, Slice slice) const {
    if (!is_table(tensors[index])) return slice;
    slice.size[0] = std::clamp<std::int64_t>(old_tokens_ - slice.offset[0], 0, slice.size[0]);
    const std::int64_t elements = slice.size[0] * slice.size[1];
    slice.begin = std::min(slice.begin, elements);
    slice.end = std::min(slice.end, elements);
    return slice;
  }

  /// Fills `out` with the elements of a slice in the new rows.
  void fill(std::size_t index, const Slice& slice, std::span<std::byte> out) const {
    const SavedTensor& tensor = tensors[index];
    std::vector<float> values(slice.count());
    if (rows_ == NewRows::init) {
      for (const ParamSpec& spec : model_params(config)) {
        if (cat(kParamKind, ".", spec.name) == tensor.name)
          initialize_param({Tensor(values.data(), DType::f32, {slice.count()})}, slice, spec, seed_, DType::f32);
      }
    } else {
      const std::vector<double>& mean = mean_of(index);
      for (std::int64_t i = 0; i < slice.count(); ++i)
        values[i] = static_cast<float>(mean[slice.offset[1] + (slice.begin + i) % slice.size[1]]);
    }
    convert_elements(StoredDType::f32, std::as_bytes(std::span(values)), tensor.dtype, out);
  }

  /// Returns the mean of a table's old rows, (C). Reads the whole table at the first call.
  const std::vector<double>& mean_of(std::size_t index) const {
    std::vector<double>& mean = means_[index];
    if (!mean.empty()) return mean;
    const SavedTensor& tensor = tensors[index];
    const std::int64_t width = tensor.shape[1];
    const std::int64_t most = std::max<std::int64_t>(1, kElementsPerRead / width);  // rows at a time
    std::vector<std::byte> stored;
    std::vector<float> values;
    mean.assign(width, 0);
    for (std::int64_t row = 0; row < old_tokens_; row += most) {
      const std::int64_t rows = std::min(most, old_tokens_ - row);
      values.resize(rows * width);
      stored.resize(values.size() * bits_of(tensor.dtype) / 8);
      base_->read(index, {{row, 0}, {rows, width}, 0, rows * width}, stored);
      to_float(tensor.dtype, stored, values);
      for (std::size_t i = 0; i < values.size(); ++i) mean[i % width] += double{values[i]};
    }
    for (double& sum : mean) sum /= static_cast<double>(old_tokens_);
    bytes_read_ = base_->bytes_read();
    return mean;
  }

  std::unique_ptr<TensorReader> base_;
  std::int64_t old_tokens_;
  NewRows rows_;
  std::uint64_t seed_;
  mutable std::map<std::size_t, std::vector<double>> means_;  // by tensor
};

}  // namespace

NewRows parse_new_rows(std::string_view name) {
  require(name == "mean" || name == "init", "new rows: '", name, "' is neither mean nor init");
  return name == "mean" ? NewRows::mean : NewRows::init;
}

std::unique_ptr<TensorReader> extended_vocabulary(std::unique_ptr<TensorReader> reader, std::int64_t tokens,
                                                  NewRows rows, std::uint64_t seed) {
  return std::make_unique<ExtendedVocabulary>(std::move(reader), tokens, rows, seed);
}

}  // namespace mtl
