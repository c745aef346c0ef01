#include "cli/data_output.h"

#include <algorithm>

#include "base/inputs.h"
#include "base/interrupt_guard.h"
#include "base/mapped_pages.h"
#include "base/output_lock.h"
#include "cli/data_provenance.h"
#include "cli/data_publish.h"
#include "cli/run_main.h"

namespace mtl {
namespace {

std::string mega(double bytes) { return format("%.1f MB", bytes / 1e6); }

void report(const DataOutputOptions& options, const std::vector<Json>& outputs, double seconds, Console& console) {
  std::int64_t bytes = 0;
  for (const Json& output : outputs) bytes += output.at("bin_bytes").as_int() + output.at("idx_bytes").as_int();
  if (options.json) {
    print_out(Json::object({{"schema", "mtl-data-made/1"},
                            {"command", options.command.at(1)},
                            {"seconds", seconds},
                            {"bytes", bytes},
                            {"outputs", Json(outputs)}})
                  .dump() +
              "\n");
    return;
  }
  std::string text = cat(mega(static_cast<double>(bytes)), " in ", human_seconds(seconds));
  for (const Json& output : outputs) {
    const auto count = [&](const char* key) { return with_commas(output.at(key).as_int()); };
    text += cat("\n  ", output.at("prefix").as_string(), ".bin, .idx: ", count("documents"), " documents, ",
                count("tokens"), " tokens");
  }
  console.info(text);
}

std::vector<DocumentCopy> copy_parts(const DataOutputOptions& options, const std::vector<const IndexedDataset*>& inputs,
                                     const MergeTraits& traits, const std::vector<DataPart>& parts,
                                     ByteProgress& progress) {
  std::vector<DocumentCopy> copies;
  copies.reserve(parts.size());
  std::uint64_t mapped = 0;
  for (const DataPart& part : parts) {
    DocumentCopy& copy = copies.emplace_back(part.prefix, traits.type, traits.has_modes);
    copy.write(part.documents, resolve_threads(options.threads), [&](std::uint64_t done) {
      progress.add(done);
      if ((mapped += done) < kMappedPages) return;
      for (const IndexedDataset* input : inputs) release_pages(input->bin_file());
      mapped = 0;
    });
  }
  return copies;
}

}  // namespace

void add_data_output_flags(Flags& flags, DataOutputOptions& options) {
  flags.section("Output");
  flags.add("--output-prefix", &options.output_prefix, "PREFIX", "the token files to make, without .bin or .idx")
      .required();
  flags.add_switch("--json", options.json, "print what was made as JSON on standard output, schema mtl-data-made/1");
  flags.section("Running");
  add_threads_flag(flags, options.threads);
}

std::vector<std::string> command_words(int argc, const char* const* argv) {
  std::vector<std::string> words{"mtl-data"};
  words.insert(words.end(), argv, argv + argc);
  return words;
}

std::vector<std::string> files_of(const std::vector<const IndexedDataset*>& inputs) {
  std::vector<std::string> files;
  for (const IndexedDataset* input : inputs) {
    for (const char* ending : {".bin", ".idx", ".json"}) files.push_back(input->prefix() + ending);
  }
  return files;
}

void require_space(const std::string& path, std::uint64_t bytes) {
  const fs::path folder = fs::path(path).parent_path();
  make_directories(folder.string());
  std::error_code error;
  const fs::space_info space = fs::space(folder.empty() ? "." : folder, error);
  if (error || space.available >= bytes) return;  // who cannot say is asked again by the first write
  fail(Exit::io, path, ": needs ", human_bytes(static_cast<double>(bytes)), ", its disk has ",
       human_bytes(static_cast<double>(space.available)), " left; free some space, or write to another disk");
}

ByteProgress::ByteProgress(Console& console, std::uint64_t total)
    : console_(console), total_(total), start_(now_seconds()) {}

void ByteProgress::add(std::uint64_t bytes) {
  done_ += bytes;
  const double rate = static_cast<double>(done_) / (seconds() + 1e-9);
  const std::uint64_t left = total_ - std::min(total_, done_);
  console_.progress(cat(mega(static_cast<double>(done_)), " of ", mega(static_cast<double>(total_)), ", ", mega(rate),
                        "/s, ", human_seconds(static_cast<double>(left) / (rate + 1e-9)), " left"));
}

double ByteProgress::seconds() const { return now_seconds() - start_; }

void make_token_files(const DataOutputOptions& options, const std::vector<const IndexedDataset*>& inputs,
                      const MergeTraits& traits, const std::vector<DataPart>& parts, Console& console) {
  std::vector<std::string> prefixes, files;
  for (const DataPart& part : parts) {
    prefixes.push_back(part.prefix);
    for (const char* ending : {".bin", ".idx", ".json"}) files.push_back(part.prefix + ending);
  }
  refuse_overwriting(files_of(inputs), files);
  std::uint64_t bin_bytes = 0, bytes = 0;
  for (const IndexedDataset* input : inputs) {
    bin_bytes += input->bin_bytes();
    bytes += input->bin_bytes() + input->idx_bytes();
  }
  for (const DataPart& part : parts) require_space(part.prefix, bytes);

  InterruptGuard guard(console.program());  // outlives the files that it would remove
  std::vector<OutputLock> locks = claim_outputs({prefixes, files, files_of(inputs)}, guard, console);
  ByteProgress progress(console, bin_bytes);
  std::vector<DocumentCopy> copies = copy_parts(options, inputs, traits, parts, progress);
  const Json sources = describe_inputs(inputs), tokenizer = common_tokenizer(inputs);
  for (const IndexedDataset* input : inputs) input->check_sizes();
  std::vector<Json> outputs;
  std::vector<SealedTokenFiles> sealed;
  for (DocumentCopy& copy : copies) {
    outputs.push_back(describe_output(copy.written()));
    sealed.emplace_back(copy.prefix(), make_provenance("mtl-data", options.command, tokenizer, sources, outputs.back()),
                        [&copy] { copy.commit(); });
  }
  {
    const auto kept = guard.keep_files();
    publish_token_files(sealed);
    locks.clear();
  }
  console.end_progress();
  report(options, outputs, progress.seconds(), console);
}

}  // namespace mtl
