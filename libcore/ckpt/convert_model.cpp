#include "ckpt/convert_model.h"
#include "ckpt/open_model.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/files.h"
#include "base/memory_limits.h"
#include "ckpt/model_formats.h"
#include "ckpt/output_folder.h"
#include "ckpt/write_checkpoint.h"
#include "models/torch_dist_writer.h"
#include "nn/model_params.h"

namespace mtl {

namespace {

/// Counts infinite and NaN elements, with an entry for every tensor.
ConversionHook count_nonfinite_into(std::vector<NonfiniteElements>& found) {
  return [&found](const std::string& tensor, StoredDType from, std::span<const std::byte> stored, StoredDType to,
                  std::span<const std::byte> converted) {
    if (found.empty() || found.back().tensor != tensor) found.push_back({.tensor = tensor});
    const std::size_t before = count_nonfinite(from, stored);
    found.back().elements += stored.size() * 8 / bits_of(from);
    found.back().in_source += before;
    found.back().in_output += from == to ? before : count_nonfinite(to, converted);
  };
}

/// Lists the tensors for which `count` is not 0, as in "'h.0.ln_1.weight' (3 of 192 elements), ... and 5 more tensors".
template <class Count>
std::string list_tensors(const std::vector<NonfiniteElements>& found, const Count& count) {
  constexpr std::size_t kListed = 8;
  std::vector<std::string> lines;
  for (const NonfiniteElements& one : found) {
    if (count(one) > 0)
      lines.push_back(
          cat("'", one.tensor, "' (", with_commas(count(one)), " of ", with_commas(one.elements), " elements)"));
  }
  return join_first(std::move(lines), kListed, "tensor");
}

std::string overflowing_tensors(const std::vector<NonfiniteElements>& found) {
  return list_tensors(found, [](const NonfiniteElements& one) { return one.in_output - one.in_source; });
}

/// Lists the source's tensors with infinite or NaN elements, by the names in its files.
std::string broken_tensors(const ModelSource& source) {
  std::vector<NonfiniteElements> found;
  for (const SavedTensor& tensor : source.tensors()) {
    for (const NonfiniteTensor& stored : source.find_nonfinite(tensor.name))
      found.push_back({.tensor = stored.name, .elements = stored.elements, .in_source = stored.nonfinite});
  }
  return list_tensors(found, [](const NonfiniteElements& one) { return one.in_source; });
}

void warn_about_nonfinite(const ModelSource& source, const ConvertReport& report, Console& console) {
  if (std::ranges::any_of(report.nonfinite, [](const NonfiniteElements& one) { return one.in_source > 0; }))
    console.warn(cat(report.source, " contains NaN or infinity in ", broken_tensors(source),
                     "; use another checkpoint, because the files are damaged or the training diverged"));
  const std::string overflowing = overflowing_tensors(report.nonfinite);
  if (!overflowing.empty())
    console.warn(cat(report.dtype, " cannot represent some elements, which became infinite: ", overflowing,
                     "; use --dtype bfloat16, which has the range of float32"));
}

void check_tensors(const ModelSource& source, const ModelSource& written, std::optional<StoredDType> dtype) {
  std::vector<std::byte> expected, read;
  for (const SavedTensor& tensor : source.tensors()) {
    const SavedTensor* found = written.find_tensor(tensor.name);
    if (found == nullptr && !starts_with(tensor.name, "param."))
      continue;  // other formats cannot contain optimizer states
    require(found != nullptr, "verification failed: tensor '", tensor.name, "' was not written");
    StoredDType target = target_dtype(tensor, dtype);
    bool same = found->dtype == target;
    if (same) {
      read_tensor(source, tensor, target, expected);
      read_tensor(written, *found, target, read);
      same = expected == read;
    }
    require(same, "verification failed: tensor '", tensor.name, "' differs from the source");
  }
}

/// Throws unless there is enough memory for verify_output().
void check_verification(const ModelSource& source, const ConvertOptions& options) {
  std::uint64_t largest = 0;
  for (const SavedTensor& tensor : source.tensors())
    largest = std::max<std::uint64_t>(largest, whole_slice(tensor.shape).count() * bits_of(StoredDType::f32) / 8);
  require_memory(2 * largest, "the largest tensor, which --verify holds twice,",
                 "convert without --verify, or provide more memory");
  options.check_comparison(source.config());
}

void verify_output(const ModelSource& source, const std::string& folder, const ModelFormat& format,
                   const ConvertOptions& options, std::optional<StoredDType> dtype, Console& console) {
  // A torch_dist checkpoint with optimizer state is read from its main weights, which --dtype does not round.
  if (format.name == "torch_dist" && source.has_optimizer()) dtype = StoredDType::f32;
  ModelSource written = open_model(folder, console, {source.config().vocab_size, {}});
  written.verify();
  check_tensors(source, written, dtype);
  const double difference = options.compare_logits(source, written);
  bool narrower = std::ranges::any_of(source.tensors(), [&](const SavedTensor& tensor) {
    StoredDType target = target_dtype(tensor, dtype);
    return target != tensor.dtype && bits_of(target) <= bits_of(tensor.dtype);
  });
  require(narrower || difference == 0, "verification failed: the logits of source and output differ by up to ",
          difference);
}

void list_files(const std::string& folder, ConvertReport& report) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    report.files.push_back(fs::relative(entry.path(), folder).string());
    report.bytes += file_size(entry.path().string());
  }
  std::ranges::sort(report.files);
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
  if (!number) return std::nullopt;
  const double bytes = *number * double(unit);
  if (!(bytes >= 1 && bytes <= double(kMaxSize))) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

ConvertReport convert_model(const ConvertOptions& options, Console& console) {
  InterruptGuard guard(console.program());  // must outlive `output`, because the guard removes its folder on a signal
  std::optional<StoredDType> dtype;
  if (options.dtype) dtype = parse_torch_dtype(*options.dtype);
  const ModelFormat& format = written_format(options.to, options.ckpt_format);
  ModelSource source = open_model(options.load, console, options.given);
  if (source.has_padded_vocabulary()) source.trim_vocabulary(options.vocabulary_in(source.folder()), console);
  const std::int64_t vocabulary = source.config().vocab_size;
  if (options.given.vocab_size.value_or(vocabulary) != vocabulary)
    fail_at(Exit::usage, cat("--vocab-size ", *options.given.vocab_size), "differs from the vocabulary of ",
            source.folder(), ", which has ", vocabulary, " tokens; remove the flag");
  if (const std::string& problem = source.optimizer_problem(); !problem.empty())
    console.warn(cat("converting the weights without the optimizer state: ", problem));
  if (format.name == "torch_dist" && source.has_optimizer() && !states_adam_settings(source))
    console.warn(cat(source.folder(),
                     " does not state Adam's betas and epsilon; writing Megatron-LM's defaults, 0.9, "
                     "0.999 and 1e-8, which Megatron-LM uses in place of its flags"));
  if (options.verify) check_verification(source, options);
  OutputFolder output({.path = options.save, .replace = options.force, .source = source.folder()}, guard, console);
  ConvertReport report;
  report.source = source.folder();
  report.source_kind = source.kind();
  report.output = output.path();
  report.replaced = output.replaced();
  report.parameters = parameter_count(source.config());
  report.dtype = torch_name_of(target_dtype(source.tensors().front(), dtype));
  format.write(source, output.staged(),
               {.dtype = dtype,
                .on_conversion = count_nonfinite_into(report.nonfinite),
                .max_shard_bytes = *parse_size(options.max_shard_size),
                .megatron = options.megatron,
                .command_line = options.command_line});
  source.verify();  // what the writers have not read
  std::erase_if(report.nonfinite, [](const NonfiniteElements& one) { return one.in_source + one.in_output == 0; });
  warn_about_nonfinite(source, report, console);
  if (options.verify) {
    const std::string overflowing = overflowing_tensors(report.nonfinite);
    require(overflowing.empty(), "verification failed: ", report.dtype, " cannot represent all elements of ",
            overflowing, "; choose --dtype bfloat16 or float32");
    verify_output(source, output.staged(), format, options, dtype, console);
  }
  list_files(output.staged(), report);
  output.commit();
  return report;
}

}  // namespace mtl
