#include "cli/convert_model.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "ckpt/checkpoint.h"
#include "ckpt/companion_files.h"
#include "ckpt/hf_gpt2.h"
#include "comm/communicator.h"

namespace mtl {

namespace {

/// A folder that takes the place of another when it is complete, and goes when it never was.
class StagedFolder {
 public:
  StagedFolder(const std::string& path, bool force) : path_(path) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
    staged_ = cat(path_, ".tmp.", ::getpid());
    if (file_exists(path_) && !fs::is_directory(path_))
      fail(Exit::io, path_, ": is a file; give another folder to --save");
    if (file_exists(path_) && !fs::is_empty(path_) && !force) {
      fail(Exit::usage, path_, ": is not empty; give another folder to --save, or --force to replace it");
    }
    make_directories(staged_);
  }
  ~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(staged_, ignored);
  }
  StagedFolder(const StagedFolder&) = delete;

  const std::string& staged() const { return staged_; }
  const std::string& path() const { return path_; }
  void commit() {
    sync_directory(staged_);
    if (file_exists(path_) && !fs::is_empty(path_)) {
      exchange_paths(staged_, path_);  // what was there goes with this object
    } else {
      rename_path(staged_, path_);
    }
    sync_directory(fs::path(path_).parent_path().string());
  }

 private:
  std::string path_, staged_;
};

/// One whole tensor, rounded to `dtype`.
std::vector<std::byte> read_tensor(const ModelSource& source, const SavedTensor& tensor, StoredDType dtype) {
  Slice whole = whole_slice(tensor.shape);
  auto count = static_cast<std::size_t>(whole.count());
  std::vector<std::byte> stored(count * static_cast<std::size_t>(bits_of(tensor.dtype)) / 8);
  std::vector<std::byte> out(count * static_cast<std::size_t>(bits_of(dtype)) / 8);
  source.read(tensor.name, whole, stored);
  convert_elements(tensor.dtype, stored, dtype, out);
  return out;
}

/// Only the parameters change their type; moments stay as they are.
StoredDType target_dtype(const SavedTensor& tensor, std::optional<StoredDType> dtype) {
  return starts_with(tensor.name, "param.") ? dtype.value_or(tensor.dtype) : tensor.dtype;
}

void write_mtl(const ModelSource& source, const std::string& folder, const ConvertOptions& options,
               std::optional<StoredDType> dtype) {
  source.verify();
  TrainState state = source.state().value_or(TrainState{});
  if (Json config = source.hf_config(); !config.is_null()) state.extra.set("hf_config", std::move(config));
  std::vector<TensorToSave> tensors;
  std::vector<std::byte> buffer;
  for (const SavedTensor& tensor : source.tensors()) {
    StoredDType target = target_dtype(tensor, dtype);
    tensors.push_back(
        {{tensor.name, target, tensor.shape}, whole_slice(tensor.shape), [&source, &buffer, tensor, target] {
           buffer = read_tensor(source, tensor, target);
           return std::span<const std::byte>(buffer);
         }});
  }
  SaveOptions save;
  save.command_line = options.command_line;
  save.add_files = [&](const std::string& to) { copy_companion_files(source.folder(), to); };
  SelfCommunicator alone;
  Stream stream(Device::cpu);
  commit_checkpoint(folder, {source.config(), state, std::move(tensors)}, save, alone, stream);
}

void check_tensors(const ModelSource& source, const ModelSource& written, std::optional<StoredDType> dtype) {
  for (const SavedTensor& tensor : source.tensors()) {
    auto found = std::find_if(written.tensors().begin(), written.tensors().end(),
                              [&](const SavedTensor& t) { return t.name == tensor.name; });
    if (found == written.tensors().end() && !starts_with(tensor.name, "param."))
      continue;  // moments have no place in hf
    require(found != written.tensors().end(), "verification: tensor '", tensor.name, "' was not written");
    StoredDType target = target_dtype(tensor, dtype);
    bool same = found->dtype == target && read_tensor(source, tensor, target) == read_tensor(written, *found, target);
    require(same, "verification: tensor '", tensor.name, "' is not what was read");
  }
}

ModelComparison verify_output(const ModelSource& source, const std::string& folder, std::optional<StoredDType> dtype,
                              int threads, Console& console) {
  ModelSource written = ModelSource::open(folder, console);
  written.verify();
  check_tensors(source, written, dtype);
  ModelComparison comparison = compare_models(source, written, threads);
  bool narrower = std::any_of(source.tensors().begin(), source.tensors().end(), [&](const SavedTensor& tensor) {
    StoredDType target = target_dtype(tensor, dtype);
    return target != tensor.dtype && bits_of(target) <= bits_of(tensor.dtype);
  });
  require(narrower || comparison.max_difference == 0, "verification: logits differ by ", comparison.max_difference);
  return comparison;
}

void list_files(const std::string& folder, ConvertReport& report) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    report.files.push_back(fs::relative(entry.path(), folder).string());
    report.bytes += file_size(entry.path().string());
  }
  std::sort(report.files.begin(), report.files.end());
}

}  // namespace

std::optional<std::uint64_t> parse_size(const std::string& text) {
  constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {{"KiB", 1ull << 10}, {"MiB", 1ull << 20},
                                                                   {"GiB", 1ull << 30}, {"KB", 1'000},
                                                                   {"MB", 1'000'000},   {"GB", 1'000'000'000}};
  std::uint64_t unit = 1;
  std::string_view digits = text;
  for (const auto& [name, bytes] : kUnits) {
    if (!ends_with(text, name)) continue;
    unit = bytes;
    digits.remove_suffix(name.size());
    break;
  }
  std::optional<double> number = parse_float(digits);
  if (!number || !(*number > 0) || *number * static_cast<double>(unit) < 1 ||
      *number * static_cast<double>(unit) > 1e18)
    return std::nullopt;
  return static_cast<std::uint64_t>(*number * static_cast<double>(unit));
}

ConvertReport convert_model(const ConvertOptions& options, Console& console) {
  std::optional<StoredDType> dtype;
  if (options.dtype) dtype = parse_torch_dtype(*options.dtype);
  ModelSource source = ModelSource::open(options.load, console);
  StagedFolder output(options.save, options.force);
  if (options.to == "mtl") {
    write_mtl(source, output.staged(), options, dtype);
  } else {
    write_hf_gpt2(source, output.staged(),
                  {.dtype = dtype,
                   .max_shard_bytes = *parse_size(options.max_shard_size),
                   .end_of_text_id = find_end_of_text_id(source.folder())});
  }
  ConvertReport report{source.folder(), source.kind(), output.path(), {}, source.config().parameter_count(), 0, {}, {}};
  report.dtype = torch_name_of(target_dtype(source.tensors().front(), dtype));
  if (options.verify) report.comparison = verify_output(source, output.staged(), dtype, options.threads, console);
  list_files(output.staged(), report);
  output.commit();
  return report;
}

}  // namespace mtl
