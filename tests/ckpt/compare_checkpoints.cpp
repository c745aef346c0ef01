// compare_checkpoints A B compares two checkpoints of the same model and prints one line:
//
// same|differ RMS TENSOR RMS TENSOR
//
// "same" means that all parameters have the same bits. Each RMS is the largest relative rms difference of any tensor,
// followed by the tensor's name: first for the parameters, then for the first moments. Skips the key part of attention
// biases: adding a constant to all of a query's scores does not change its softmax, so the true gradient is zero and
// the computed gradient is rounding noise. Exits with 1 if a model has no tensors, if the tensors do not match, and for
// NaN or infinite values, which cannot be compared.
//
// compare_checkpoints --exact A B also compares the optimizer state. At the first tensor whose bits differ, prints its
// name and exits with 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/console.h"
#include "ckpt/open_model.h"
#include "models/model_source.h"

namespace mtl {

namespace {

std::vector<float> read(const ModelSource& source, const SavedTensor& tensor) {
  Slice whole = whole_slice(tensor.shape);
  std::vector<float> out(static_cast<std::size_t>(whole.count()));
  require(tensor.dtype == StoredDType::f32, tensor.name, ": not stored in fp32");
  source.read(tensor.name, whole, std::as_writable_bytes(std::span(out)));
  const auto bad = std::find_if(out.begin(), out.end(), [](float value) { return !std::isfinite(value); });
  if (bad != out.end())
    fail(Exit::bad_data, source.folder(), ": ", tensor.name, "[", bad - out.begin(), "] is not finite");
  return out;
}

/// Clears the key part of a (G, R + 2, D) qkv bias. Does nothing for other tensors.
void clear_key_bias(const SavedTensor& tensor, std::vector<float>& values) {
  if (!tensor.name.ends_with("attention.qkv.bias")) return;
  auto rows = static_cast<std::size_t>(tensor.shape[1]), width = static_cast<std::size_t>(tensor.shape[2]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i / width % rows == rows - 2) values[i] = 0;
  }
}

double relative_rms(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;  // sums of squares
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    norm += double{a[i]} * double{a[i]};
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

struct LargestRms {
  double rms = 0;
  std::string name = "-";
  void update(double value, const std::string& tensor) {
    if (value > rms) rms = value, name = tensor;  // never NaN: the values are finite
  }
};

void require_same_shapes(const ModelSource& a, const ModelSource& b) {
  auto same = [](const SavedTensor& x, const SavedTensor& y) { return x.name == y.name && x.shape == y.shape; };
  if (a.tensors().empty() || !std::ranges::equal(a.tensors(), b.tensors(), same))
    fail(Exit::bad_data, "the models have different tensors, or none");
}

int compare(const std::string& first, const std::string& second) {
  Console console("compare_checkpoints");
  ModelSource a = open_model(first, console), b = open_model(second, console);
  require_same_shapes(a, b);
  bool same = true;
  LargestRms params, moments;
  for (const SavedTensor& tensor : a.tensors()) {
    if (tensor.name.starts_with("exp_avg_sq.")) continue;
    std::vector<float> left = read(a, tensor), right = read(b, tensor);
    bool is_param = tensor.name.starts_with("param.");
    if (is_param) same = same && std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
    clear_key_bias(tensor, left);
    clear_key_bias(tensor, right);
    (is_param ? params : moments).update(relative_rms(left, right), tensor.name);
  }
  std::printf("%s %.1e %s %.1e %s\n", same ? "same" : "differ", params.rms, params.name.c_str(), moments.rms,
              moments.name.c_str());
  return 0;
}

int compare_bits(const std::string& first, const std::string& second) {
  Console console("compare_checkpoints");
  ModelSource a = open_model(first, console), b = open_model(second, console);
  require_same_shapes(a, b);
  for (const SavedTensor& tensor : a.tensors()) {
    std::vector<float> left = read(a, tensor), right = read(b, tensor);
    if (std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0) continue;
    std::printf("%s differs\n", tensor.name.c_str());
    return 1;
  }
  std::printf("same\n");
  return 0;
}

}  // namespace

}  // namespace mtl

int main(int argc, char** argv) {
  const bool exact = argc == 4 && std::strcmp(argv[1], "--exact") == 0;
  if (argc != 3 && !exact) return 2;
  try {
    return exact ? mtl::compare_bits(argv[2], argv[3]) : mtl::compare(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_checkpoints: %s\n", error.what());
    return 1;
  }
}
